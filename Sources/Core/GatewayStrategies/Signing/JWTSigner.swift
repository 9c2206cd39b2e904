import Crypto
import CryptoExtras
import GatewayCore

/// Signs JSON web tokens with one private key (RFC 7515 §7.1, RFC 7518 §3).
///
/// RS256 and its kin always yield the same signature; PS256 and ES256 and theirs use fresh random numbers each time.
struct JWTSigner: Sendable {
    enum Algorithm: String, CaseIterable, Sendable {
        case rs256 = "RS256"
        case rs384 = "RS384"
        case rs512 = "RS512"
        case ps256 = "PS256"
        case ps384 = "PS384"
        case ps512 = "PS512"
        case es256 = "ES256"
        case es384 = "ES384"
        case es512 = "ES512"
    }

    /// Why a key does not fit an algorithm.
    enum KeyRefusal: Error, Hashable {
        /// RS256 and PS256 need RSA, ES256 the curve P-256 and so on.
        case wrongKind(expected: String)
        case tooShort
    }

    /// RFC 7518 §3.3: at least 2048 bits.
    private enum Key: Sendable {
        case rsa(_RSA.Signing.PrivateKey)
        case p256(P256.Signing.PrivateKey)
        case p384(P384.Signing.PrivateKey)
        case p521(P521.Signing.PrivateKey)
    }

    let algorithm: Algorithm
    /// `kid`; which of several keys the authority is to verify with.
    let keyID: String?
    private let key: Key
    private let source: PrivateKeyDER

    init(_ der: PrivateKeyDER, algorithm: Algorithm, keyID: String?) throws(KeyRefusal) {
        self.algorithm = algorithm
        self.keyID = keyID
        source = der
        key = try Self.key(der.text.withValue { Base64.decodeURL($0) } ?? [], for: algorithm)
    }

    private static func key(_ bytes: [UInt8], for algorithm: Algorithm) throws(KeyRefusal) -> Key {
        switch algorithm {
        case .rs256, .rs384, .rs512, .ps256, .ps384, .ps512:
            do {
                return .rsa(try _RSA.Signing.PrivateKey(derRepresentation: bytes))
            } catch CryptoKitError.incorrectParameterSize {
                throw .tooShort
            } catch {
                throw .wrongKind(expected: "an RSA key")
            }
        case .es256:
            guard let key = try? P256.Signing.PrivateKey(derRepresentation: bytes) else {
                throw .wrongKind(expected: "a key of the curve P-256")
            }
            return .p256(key)
        case .es384:
            guard let key = try? P384.Signing.PrivateKey(derRepresentation: bytes) else {
                throw .wrongKind(expected: "a key of the curve P-384")
            }
            return .p384(key)
        case .es512:
            guard let key = try? P521.Signing.PrivateKey(derRepresentation: bytes) else {
                throw .wrongKind(expected: "a key of the curve P-521")
            }
            return .p521(key)
        }
    }

    /// The claims as a signed token in compact form.
    func sign(_ claims: [String: JSONValue]) throws(TokenFailure) -> Secret {
        var header: [String: JSONValue] = ["alg": .string(algorithm.rawValue), "typ": .string("JWT")]
        if let keyID { header["kid"] = .string(keyID) }
        do {
            let parts = try [JSONValue.object(header), .object(claims)].map { Base64.encodeURL(try $0.bytes()) }
            let input = parts.joined(separator: ".")
            return Secret("\(input).\(Base64.encodeURL(try signature(of: Array(input.utf8))))")
        } catch {
            let detail = "The assertion could not be signed with \(algorithm.rawValue)."
            throw TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail))
        }
    }

    private func signature(of input: [UInt8]) throws -> [UInt8] {
        switch key {
        case .rsa(let key): try rsa(key, input)
        case .p256(let key): Array(try key.signature(for: SHA256.hash(data: input)).rawRepresentation)
        case .p384(let key): Array(try key.signature(for: SHA384.hash(data: input)).rawRepresentation)
        case .p521(let key): Array(try key.signature(for: SHA512.hash(data: input)).rawRepresentation)
        }
    }

    private func rsa(_ key: _RSA.Signing.PrivateKey, _ input: [UInt8]) throws -> [UInt8] {
        let signature =
            switch algorithm {
            case .rs384: try key.signature(for: SHA384.hash(data: input), padding: .insecurePKCS1v1_5)
            case .rs512: try key.signature(for: SHA512.hash(data: input), padding: .insecurePKCS1v1_5)
            case .ps256: try key.signature(for: SHA256.hash(data: input), padding: .PSS)
            case .ps384: try key.signature(for: SHA384.hash(data: input), padding: .PSS)
            case .ps512: try key.signature(for: SHA512.hash(data: input), padding: .PSS)
            default: try key.signature(for: SHA256.hash(data: input), padding: .insecurePKCS1v1_5)
            }
        return Array(signature.rawRepresentation)
    }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("algorithm", algorithm.rawValue)
        identity.add("key_id", keyID)
        identity.add("private_key", secret: source.text)
    }
}
