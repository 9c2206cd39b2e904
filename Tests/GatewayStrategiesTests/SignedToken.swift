import Crypto
import CryptoExtras
import Foundation
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

/// A JSON web token as its receiver sees it.
struct SignedToken {
    let header: JSONValue
    let claims: JSONValue
    private let input: [UInt8]
    private let signature: [UInt8]

    init(_ text: String) throws {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        try #require(parts.count == 3)
        header = try #require(Base64.decodeURL(parts[0]).flatMap { JSONValue($0) })
        claims = try #require(Base64.decodeURL(parts[1]).flatMap { JSONValue($0) })
        signature = try #require(Base64.decodeURL(parts[2]))
        input = Array("\(parts[0]).\(parts[1])".utf8)
    }

    static let shared = String(repeating: "0123456789abcdef", count: 4)

    private func isCode<Hash: HashFunction>(_ kind: HMAC<Hash>.Type) -> Bool {
        kind.isValidAuthenticationCode(
            signature,
            authenticating: input,
            using: SymmetricKey(data: Array(Self.shared.utf8))
        )
    }

    /// Whether it was signed with the sample key that the algorithm in its header needs.
    func isGenuine() throws -> Bool {
        let rsa = try _RSA.Signing.PrivateKey(pemRepresentation: SampleKeys.rsa).publicKey
        let signed = _RSA.Signing.RSASignature(rawRepresentation: signature)
        switch header["alg"]?.string {
        case "RS256": return rsa.isValidSignature(signed, for: SHA256.hash(data: input), padding: .insecurePKCS1v1_5)
        case "RS384": return rsa.isValidSignature(signed, for: SHA384.hash(data: input), padding: .insecurePKCS1v1_5)
        case "RS512": return rsa.isValidSignature(signed, for: SHA512.hash(data: input), padding: .insecurePKCS1v1_5)
        case "PS256": return rsa.isValidSignature(signed, for: SHA256.hash(data: input), padding: .PSS)
        case "PS384": return rsa.isValidSignature(signed, for: SHA384.hash(data: input), padding: .PSS)
        case "PS512": return rsa.isValidSignature(signed, for: SHA512.hash(data: input), padding: .PSS)
        case "ES256":
            let key = try P256.Signing.PrivateKey(pemRepresentation: SampleKeys.p256).publicKey
            return key.isValidSignature(try .init(rawRepresentation: signature), for: SHA256.hash(data: input))
        case "ES384":
            let key = try P384.Signing.PrivateKey(pemRepresentation: SampleKeys.p384).publicKey
            return key.isValidSignature(try .init(rawRepresentation: signature), for: SHA384.hash(data: input))
        case "ES512":
            let key = try P521.Signing.PrivateKey(pemRepresentation: SampleKeys.p521).publicKey
            return key.isValidSignature(try .init(rawRepresentation: signature), for: SHA512.hash(data: input))
        case "HS256": return isCode(HMAC<SHA256>.self)
        case "HS384": return isCode(HMAC<SHA384>.self)
        case "HS512": return isCode(HMAC<SHA512>.self)
        default: return false
        }
    }
}

extension TokenRequest {
    /// The value of one parameter of the form.
    func parameter(_ name: String) throws -> String {
        guard case .form(let parameters) = body else { throw WrongKind() }
        return try #require(parameters.first { $0.name == name }).value.text
    }
}
