package import GatewayHTTP

/// How a client's token may be signed (RFC 7518 section 3.1, RFC 8037). Never with a secret that the gateway shares, and never not at all.
package enum JWTAlgorithm: String, Sendable {
    case rs256 = "RS256"
    case ps256 = "PS256"
    case es256 = "ES256"
    case edDSA = "EdDSA"

    func fits(_ key: JSONWebKey) -> Bool {
        guard key.algorithm.map({ $0 == rawValue }) ?? true else { return false }
        switch (self, key.material) {
        case (.rs256, .rsa), (.ps256, .rsa), (.es256, .p256), (.edDSA, .ed25519): return true
        default: return false
        }
    }
}

/// A signed JSON web token in its compact form (RFC 7515 section 7.1), taken apart. Nothing about it is verified.
package struct SignedJWT: Sendable {
    package static let maximumBytes = 8192

    package let algorithm: JWTAlgorithm
    package let keyID: String?
    package let claims: JSONValue
    /// What was signed.
    package let signed: [UInt8]
    package let signature: [UInt8]

    /// - Returns: nil for anything else, and for a token that is signed in another way or asks for what is not known (`crit`). Also for
    ///   one that readers could understand differently: with two claims of one name, or an `iss`, `sub` or `jti` that is no string
    ///   (RFC 7519 section 4).
    package init?(_ token: [UInt8]) {
        guard token.count <= Self.maximumBytes, let text = String(validating: token, as: UTF8.self) else { return nil }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let head = Self.object(parts[0]), let claims = Self.object(parts[1]),
            let signature = Self.decode(parts[2]), !signature.isEmpty,
            let algorithm = head["alg"]?.string.flatMap(JWTAlgorithm.init), head["crit"] == nil,
            Self.textClaims.allSatisfy({ claims[$0] == nil || claims[$0]?.string != nil })
        else { return nil }
        if let value = head["kid"] {
            guard let id = value.string else { return nil }
            keyID = id
        } else {
            keyID = nil
        }
        self.algorithm = algorithm
        self.claims = claims
        self.signature = signature
        signed = Array("\(parts[0]).\(parts[1])".utf8)
    }

    private static let textClaims = ["iss", "sub", "jti"]

    private static func object(_ part: Substring) -> JSONValue? {
        guard let value = decode(part).flatMap({ JSONValue($0, uniqueNames: true) }), case .object = value else {
            return nil
        }
        return value
    }

    /// The one spelling of some bytes: without padding (RFC 7515 section 2).
    private static func decode(_ part: Substring) -> [UInt8]? {
        guard let bytes = Base64.decodeURL(part), Base64.encodeURL(bytes) == part else { return nil }
        return bytes
    }
}

/// Whether a signature is that of the key over these bytes. What cannot be verified is not.
package typealias SignatureCheck =
    @Sendable (_ signature: [UInt8], _ signed: [UInt8], JWTAlgorithm, JSONWebKey) -> Bool
