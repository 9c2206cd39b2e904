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

/// A public key of an issuer that signs tokens of clients (RFC 7517).
package struct JSONWebKey: Hashable, Sendable {
    package enum Material: Hashable, Sendable {
        case rsa(modulus: [UInt8], exponent: [UInt8])
        /// The curve P-256.
        case p256(x: [UInt8], y: [UInt8])
        case ed25519([UInt8])
    }

    package let id: String?
    /// The only algorithm that the key is for; nil where the issuer does not say.
    package let algorithm: String?
    package let material: Material

    /// - Returns: nil for a key that signs nothing, or with an algorithm that is not taken. Shared secrets are such keys.
    init?(_ value: JSONValue) {
        if let use = value["use"]?.string, use != "sig" { return nil }
        func bytes(_ name: String) -> [UInt8]? { value[name]?.string.flatMap { Base64.decodeURL($0) } }
        switch (value["kty"]?.string, value["crv"]?.string) {
        case ("RSA", _):
            guard let modulus = bytes("n"), let exponent = bytes("e"), (256...1024).contains(modulus.count),
                (1...8).contains(exponent.count)
            else { return nil }
            material = .rsa(modulus: modulus, exponent: exponent)
        case ("EC", "P-256"):
            guard let x = bytes("x"), let y = bytes("y"), x.count == 32, y.count == 32 else { return nil }
            material = .p256(x: x, y: y)
        case ("OKP", "Ed25519"):
            guard let x = bytes("x"), x.count == 32 else { return nil }
            material = .ed25519(x)
        default: return nil
        }
        id = value["kid"]?.string
        algorithm = value["alg"]?.string
    }

    /// Tells two keys apart.
    package func add(to bytes: inout CanonicalBytes) {
        bytes.add(id)
        bytes.add(algorithm)
        switch material {
        case .rsa(let modulus, let exponent):
            bytes.add("rsa")
            bytes.add(modulus)
            bytes.add(exponent)
        case .p256(let x, let y):
            bytes.add("p256")
            bytes.add(x)
            bytes.add(y)
        case .ed25519(let key):
            bytes.add("ed25519")
            bytes.add(key)
        }
    }
}

/// The public keys of an issuer (RFC 7517 section 5).
package struct JSONWebKeySet: Hashable, Sendable {
    package static let maximumBytes = 256 << 10
    package static let maximumKeys = 64

    package let keys: [JSONWebKey]

    /// - Returns: nil for what is no key set, or has no key that can verify something.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count <= Self.maximumBytes, case .array(let values)? = JSONValue(bytes)?["keys"],
            values.count <= Self.maximumKeys
        else { return nil }
        keys = values.compactMap(JSONWebKey.init)
        guard !keys.isEmpty else { return nil }
    }

    /// The keys that can have signed such a token.
    package func keys(for token: SignedJWT) -> [JSONWebKey] {
        keys.filter { key in
            guard token.algorithm.fits(key) else { return false }
            return token.keyID == nil || key.id == token.keyID
        }
    }
}

/// The times that a JWT states about itself (RFC 7519 §4.1), read without verifying it. The upstream verifies the
/// token; the gateway only needs to know when to renew it.
package struct UnverifiedJWT {
    package let issuedAt: UnixTime?
    package let expiresAt: UnixTime?

    /// nil when `token` is not a JWT with a readable payload.
    package init?(_ token: Secret) {
        let payload = token.withValue { text -> JSONValue? in
            let parts = text.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count == 3 else { return nil }
            return Base64.decodeURL(parts[1]).flatMap { JSONValue($0) }
        }
        guard let payload, case .object = payload else { return nil }
        issuedAt = Self.time(payload["iat"])
        expiresAt = Self.time(payload["exp"])
    }

    /// Some write 0 for a token without an end.
    private static func time(_ value: JSONValue?) -> UnixTime? {
        UnixTime(numericDate: value).flatMap { $0.milliseconds > 0 ? $0 : nil }
    }

    /// The end of a token that has just been issued.
    ///
    /// One that seems to be over already means that the clocks disagree: then the lifetime counts from now, if the
    /// token states both ends, and is unknown otherwise. Dropping the token would lose a rotated pair.
    package func expiry(issuedAt now: UnixTime) -> UnixTime? {
        guard let expiresAt, expiresAt <= now else { return expiresAt }
        guard let issuedAt, issuedAt < expiresAt else { return nil }
        return now + (expiresAt - issuedAt)
    }
}
