import Crypto
import CryptoExtras
import GatewayConfiguration
import GatewayHTTP
package import GatewayTokens

/// Signs JSON web tokens with one private key or one shared secret (RFC 7515 §7.1, RFC 7518 §3).
///
/// RS256, HS256 and their kin always yield the same signature; PS256 and ES256 and theirs use fresh random numbers each time.
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
        case hs256 = "HS256"
        case hs384 = "HS384"
        case hs512 = "HS512"

        /// Those of private keys, whose owner alone can sign.
        static let asymmetric = allCases.filter { $0.minimumSecret == nil }

        /// The minimum length of a shared secret in bytes: that of the hash (RFC 7518 §3.2). nil for private keys.
        var minimumSecret: Int? {
            switch self {
            case .hs256: 32
            case .hs384: 48
            case .hs512: 64
            default: nil
            }
        }
    }

    /// RFC 7518 §3.3: at least 2048 bits.
    private enum Key: Sendable {
        case rsa(_RSA.Signing.PrivateKey)
        case p256(P256.Signing.PrivateKey)
        case p384(P384.Signing.PrivateKey)
        case p521(P521.Signing.PrivateKey)
        case shared(SymmetricKey)
    }

    let algorithm: Algorithm
    /// `kid`; which of several keys the authorization server is to verify with.
    let keyID: String?
    /// `x5t#S256`; which certificate holds the public key (RFC 7515 §4.1.8).
    var certificateThumbprint: String?
    /// nil for a shared secret.
    let privateKey: PrivateKeyDER?
    private let key: Key
    /// What the key was made from.
    private let source: Secret

    init(_ der: PrivateKeyDER, algorithm: Algorithm, keyID: String?) throws(UnusableInput) {
        self.algorithm = algorithm
        self.keyID = keyID
        privateKey = der
        source = der.text
        key = try Self.key(der.text.withValue { Base64.decodeURL($0) } ?? [], for: algorithm)
    }

    /// - Parameter secret: Its bytes in UTF-8 are the key.
    init(shared secret: Secret, algorithm: Algorithm, keyID: String?) throws(UnusableInput) {
        guard let least = algorithm.minimumSecret else { throw Self.other("a private key", for: algorithm) }
        let bytes = secret.withValue { Array($0.utf8) }
        guard bytes.count >= least else {
            throw Self.other(
                "a secret of at least \(least) bytes; make one with `openssl rand -hex \(least / 2)`",
                for: algorithm
            )
        }
        self.algorithm = algorithm
        self.keyID = keyID
        privateKey = nil
        source = secret
        key = .shared(SymmetricKey(data: bytes))
    }

    private static func key(_ bytes: [UInt8], for algorithm: Algorithm) throws(UnusableInput) -> Key {
        switch algorithm {
        case .rs256, .rs384, .rs512, .ps256, .ps384, .ps512:
            do {
                return .rsa(try _RSA.Signing.PrivateKey(derRepresentation: bytes))
            } catch CryptoKitError.incorrectParameterSize {
                throw UnusableInput("the RSA key is too short: it needs at least 2048 bits")
            } catch {
                throw other("an RSA key", for: algorithm)
            }
        case .es256:
            guard let key = try? P256.Signing.PrivateKey(derRepresentation: bytes) else {
                throw other("a key of the curve P-256", for: algorithm)
            }
            return .p256(key)
        case .es384:
            guard let key = try? P384.Signing.PrivateKey(derRepresentation: bytes) else {
                throw other("a key of the curve P-384", for: algorithm)
            }
            return .p384(key)
        case .es512:
            guard let key = try? P521.Signing.PrivateKey(derRepresentation: bytes) else {
                throw other("a key of the curve P-521", for: algorithm)
            }
            return .p521(key)
        case .hs256, .hs384, .hs512: throw other("a shared secret", for: algorithm)
        }
    }

    /// An algorithm has one kind of key: RS256 and PS256 an RSA key, ES256 one of the curve P-256, and so on.
    private static func other(_ key: String, for algorithm: Algorithm) -> UnusableInput {
        UnusableInput("\(algorithm.rawValue) needs \(key)")
    }

    /// `SHA256:` and the digest of the public key in DER (SubjectPublicKeyInfo), in base64; nil for a shared secret.
    ///
    /// Snowflake calls it `RSA_PUBLIC_KEY_FP`.
    var fingerprint: String? {
        let publicKey: [UInt8]
        switch key {
        case .rsa(let key): publicKey = Array(key.publicKey.derRepresentation)
        case .p256(let key): publicKey = Array(key.publicKey.derRepresentation)
        case .p384(let key): publicKey = Array(key.publicKey.derRepresentation)
        case .p521(let key): publicKey = Array(key.publicKey.derRepresentation)
        case .shared: return nil
        }
        return "SHA256:\(Base64.encode(SHA256.hash(data: publicKey)))"
    }

    /// The claims as a signed token in compact form.
    func sign(_ claims: [String: JSONValue]) throws(TokenFailure) -> Secret {
        var header: [String: JSONValue] = ["alg": .string(algorithm.rawValue), "typ": .string("JWT")]
        if let keyID { header["kid"] = .string(keyID) }
        if let certificateThumbprint { header["x5t#S256"] = .string(certificateThumbprint) }
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
        case .shared(let key): shared(key, input)
        }
    }

    private func shared(_ key: SymmetricKey, _ input: [UInt8]) -> [UInt8] {
        switch algorithm {
        case .hs384: Array(HMAC<SHA384>.authenticationCode(for: input, using: key))
        case .hs512: Array(HMAC<SHA512>.authenticationCode(for: input, using: key))
        default: Array(HMAC<SHA256>.authenticationCode(for: input, using: key))
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
        identity.add("x5t#S256", certificateThumbprint)
        identity.add("private_key", secret: source)
    }
}

/// Verifies signatures of tokens that clients present (RFC 7518 section 3, RFC 8037 section 3.1).
package enum JWTSignature {
    /// - Returns: false for a key that the algorithm is not for, or that is no key.
    package static func isValid(
        _ signature: [UInt8],
        over signed: [UInt8],
        as algorithm: JWTAlgorithm,
        by key: JSONWebKey
    ) -> Bool {
        switch (algorithm, key.material) {
        case (.rs256, .rsa(let modulus, let exponent)):
            return rsa(signature, signed, modulus, exponent, .insecurePKCS1v1_5)
        case (.ps256, .rsa(let modulus, let exponent)): return rsa(signature, signed, modulus, exponent, .PSS)
        case (.es256, .p256(let x, let y)):
            guard signature.count == 64, let key = try? P256.Signing.PublicKey(x963Representation: [4] + x + y),
                let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
            else { return false }
            return key.isValidSignature(signature, for: SHA256.hash(data: signed))
        case (.edDSA, .ed25519(let bytes)):
            guard let key = try? Curve25519.Signing.PublicKey(rawRepresentation: bytes) else { return false }
            return key.isValidSignature(signature, for: signed)
        default: return false
        }
    }

    private static func rsa(
        _ signature: [UInt8],
        _ signed: [UInt8],
        _ modulus: [UInt8],
        _ exponent: [UInt8],
        _ padding: _RSA.Signing.Padding
    ) -> Bool {
        guard let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent) else { return false }
        let signature = _RSA.Signing.RSASignature(rawRepresentation: signature)
        return key.isValidSignature(signature, for: SHA256.hash(data: signed), padding: padding)
    }
}

/// What `x5t#S256` holds (RFC 7515 §4.1.8).
enum CertificateThumbprint {
    /// The SHA-256 digest of the first certificate in DER, in base64url; nil when there is none.
    static func sha256(ofFirstIn pem: String) -> String? {
        guard let der = PEM.certificates(in: pem).first.flatMap({ Base64.decode($0) }) else { return nil }
        return Base64.encodeURL(SHA256.hash(data: der))
    }
}

extension ConfigFields {
    /// The thumbprint of the certificate behind `key`, whose key the signer has; nil after a mistake.
    func thumbprint(_ key: String, of signer: JWTSigner) -> String? {
        guard let pem = certificates(key), let privateKey = signer.privateKey else { return nil }
        guard context.secrets.fits(ClientTLS(certificates: pem, privateKey: privateKey)) else {
            error(key, "does not belong to the private key")
            return nil
        }
        guard let thumbprint = CertificateThumbprint.sha256(ofFirstIn: pem) else {
            error(key, "contains no readable certificate")
            return nil
        }
        return thumbprint
    }
}
