import CryptoExtras
import FoundationEssentials
import GatewayCore

/// A signed assertion, judged as Box judges it.
struct BoxAssertion: Sendable {
    static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    private static let audience = "https://api.box.com/oauth2/token"

    /// In the words of Box.
    enum Refusal: String, Error {
        case malformed = "Invalid assertion parameter or parameter missing"
        case badSignature = "OAuth JWT signature is invalid"
        case unknownKey = "Please check the 'kid' header. The 'kid' specified is invalid."
        case wrongIssuer = "Please check the 'iss' claim. The 'iss' specified is invalid."
        case wrongAudience = "Please check the 'aud' claim. The 'aud' specified is invalid."
        case unknownSubject = "Please check the 'sub' claim. The 'sub' specified is invalid."
        case expired = "Current date/time MUST be before the expiration date/time listed in the 'exp' claim"
        case tooLong = "The 'exp' value exceeds the maximum value of 60 seconds beyond the issue time"
        case notYet =
            "Current date/time MUST be after or equal to the not-before date/time listed in the 'nbf' or 'iat' claim"
        case replayed = "A unique 'jti' value is required"
    }

    private let header: JSONValue
    private let claims: JSONValue

    var subject: String { claims["sub"]?.string ?? "" }
    var subjectType: String { claims["box_sub_type"]?.string ?? "" }

    /// Verifies the signature.
    init(_ text: String) throws(Refusal) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.json(parts[0]), let claims = Self.json(parts[1]),
            let signature = Base64.decodeURL(parts[2])
        else { throw .malformed }
        guard header["kid"]?.string == BoxKeyPair.keyID else { throw .unknownKey }
        let signed = Array("\(parts[0]).\(parts[1])".utf8)
        guard Self.isValid(signature, of: signed, algorithm: header["alg"]?.string) else { throw .badSignature }
        self.header = header
        self.claims = claims
    }

    private static func json(_ part: Substring) -> JSONValue? {
        Base64.decodeURL(part).flatMap { JSONValue($0) }
    }

    private static func isValid(_ bytes: [UInt8], of signed: [UInt8], algorithm: String?) -> Bool {
        guard let key = try? _RSA.Signing.PublicKey(pemRepresentation: BoxKeyPair.publicKey) else { return false }
        let signature = _RSA.Signing.RSASignature(rawRepresentation: bytes)
        switch algorithm {
        case "RS256":
            return key.isValidSignature(signature, for: SHA256.hash(data: signed), padding: .insecurePKCS1v1_5)
        case "RS384":
            return key.isValidSignature(signature, for: SHA384.hash(data: signed), padding: .insecurePKCS1v1_5)
        case "RS512":
            return key.isValidSignature(signature, for: SHA512.hash(data: signed), padding: .insecurePKCS1v1_5)
        default: return false
        }
    }

    /// - Parameters:
    ///   - now: In milliseconds since 1970.
    ///   - used: Every `jti` so far; this one joins them.
    func check(for client: String, at now: Int64, against used: inout Set<String>) throws(Refusal) {
        guard claims["iss"]?.string == client else { throw .wrongIssuer }
        guard claims["aud"]?.string == Self.audience else { throw .wrongAudience }
        let seconds = Double(now) / 1000
        for name in ["iat", "nbf"] {
            if case .number(let time)? = claims[name], time.value > seconds { throw .notYet }
        }
        guard case .number(let end)? = claims["exp"], end.value > seconds else { throw .expired }
        guard end.value <= seconds + 60 else { throw .tooLong }
        guard let id = claims["jti"]?.string, (16...128).contains(id.utf8.count), used.insert(id).inserted else {
            throw .replayed
        }
    }
}
