import Crypto
import CryptoExtras
import Foundation
import GatewayHTTP
import GatewayStrategies
import GatewayTokens
import Testing

@Suite("Signatures of clients' tokens", .timeLimit(.minutes(1)))
struct JWTSignatureTests {
    private static let signed = Array("head.claims".utf8)

    private struct Signer {
        let algorithm: JWTAlgorithm
        let key: JSONWebKey
        let signature: [UInt8]
    }

    private static func key(_ members: String) throws -> JSONWebKey {
        try #require(JSONWebKeySet(Array(#"{"keys": [{\#(members)}]}"#.utf8))?.keys.first)
    }

    private static func signers() throws -> [Signer] {
        let rsa = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let primitives = try rsa.publicKey.getKeyPrimitives()
        let (n, e) = (Base64.encodeURL(primitives.modulus), Base64.encodeURL(primitives.publicExponent))
        let rsaKey = try key(#""kty": "RSA", "n": "\#(n)", "e": "\#(e)""#)
        let p256 = P256.Signing.PrivateKey()
        let point = Array(p256.publicKey.x963Representation)
        let (x, y) = (Base64.encodeURL(point[1..<33]), Base64.encodeURL(point[33...]))
        let ed25519 = Curve25519.Signing.PrivateKey()
        let digest = SHA256.hash(data: signed)
        return [
            Signer(
                algorithm: .rs256,
                key: rsaKey,
                signature: Array(try rsa.signature(for: digest, padding: .insecurePKCS1v1_5).rawRepresentation)
            ),
            Signer(
                algorithm: .ps256,
                key: rsaKey,
                signature: Array(try rsa.signature(for: digest, padding: .PSS).rawRepresentation)
            ),
            Signer(
                algorithm: .es256,
                key: try key(#""kty": "EC", "crv": "P-256", "x": "\#(x)", "y": "\#(y)""#),
                signature: Array(try p256.signature(for: digest).rawRepresentation)
            ),
            Signer(
                algorithm: .edDSA,
                key: try key(
                    #""kty": "OKP", "crv": "Ed25519", "x": "\#(Base64.encodeURL(ed25519.publicKey.rawRepresentation))""#
                ),
                signature: Array(try ed25519.signature(for: signed))
            ),
        ]
    }

    @Test func eachAlgorithmTakesItsOwnSignatureAlone() throws {
        let signers = try Self.signers()
        for signer in signers {
            for (number, other) in signers.enumerated() {
                let isOwn = signer.algorithm == other.algorithm
                let isValid = JWTSignature.isValid(
                    signer.signature,
                    over: Self.signed,
                    as: other.algorithm,
                    by: other.key
                )
                #expect(isValid == isOwn, "\(signer.algorithm) as \(number)")
            }
        }
    }

    @Test func aChangeOfWhatIsSignedOrOfTheSignatureIsFound() throws {
        for signer in try Self.signers() {
            func isValid(_ signature: [UInt8], over signed: [UInt8]) -> Bool {
                JWTSignature.isValid(signature, over: signed, as: signer.algorithm, by: signer.key)
            }
            #expect(!isValid(signer.signature, over: Self.signed + [0x20]))
            var changed = signer.signature
            changed[changed.count / 2] ^= 1
            #expect(!isValid(changed, over: Self.signed))
            #expect(!isValid([], over: Self.signed))
            #expect(!isValid(Array(signer.signature.dropLast()), over: Self.signed))
        }
    }

    @Test func aPointThatIsNotOnTheCurveIsNoKey() throws {
        let zeros = Base64.encodeURL([UInt8](repeating: 0, count: 32))
        let key = try Self.key(#""kty": "EC", "crv": "P-256", "x": "\#(zeros)", "y": "\#(zeros)""#)
        let signature = [UInt8](repeating: 1, count: 64)
        #expect(!JWTSignature.isValid(signature, over: Self.signed, as: .es256, by: key))
    }
}
