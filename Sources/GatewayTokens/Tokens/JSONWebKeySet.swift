package import GatewayHTTP

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

    /// Those that can have signed such a token.
    package func keys(for token: SignedJWT) -> [JSONWebKey] {
        keys.filter { key in
            guard token.algorithm.fits(key) else { return false }
            return token.keyID == nil || key.id == token.keyID
        }
    }
}
