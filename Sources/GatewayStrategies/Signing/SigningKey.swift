import GatewayConfiguration
import GatewayHTTP

/// Reads private keys of the configuration and says what is wrong with them.
enum SigningKey {
    /// What counts for keys of the configuration that are absent.
    struct Defaults {
        /// The private key, and the key of the configuration that it came from.
        var key: (text: Secret, place: String)?
        var passphrase: Secret?
        var keyID: String?
    }

    /// Why there is no key, in words that end a sentence about the value that held it.
    struct Refusal: Error, Hashable {
        let message: String
        /// The passphrase is the mistake, or its absence.
        var isAboutPassphrase = false
    }

    static func open(_ text: Secret, passphrase: Secret?, with secrets: any SecretSource) throws(Refusal)
        -> PrivateKeyDER
    {
        let pem = text.withValue { Secret(unescaped($0)) }
        let label = pem.withValue { PEM.label(of: $0) }
        guard let label else {
            throw Refusal(message: "is not a private key in PEM (\"-----BEGIN … PRIVATE KEY-----\")")
        }
        guard label.hasSuffix("PRIVATE KEY"), label != "OPENSSH PRIVATE KEY" else {
            throw Refusal(message: "holds a \(label.lowercased()); a private key in PEM is needed")
        }
        let isEncrypted = label == "ENCRYPTED PRIVATE KEY" || pem.withValue { $0.contains("Proc-Type: 4,ENCRYPTED") }
        if isEncrypted, passphrase == nil {
            throw Refusal(message: "the private key is encrypted and needs its passphrase", isAboutPassphrase: true)
        }
        guard let key = secrets.openPrivateKey(pem, passphrase: passphrase) else {
            throw isEncrypted
                ? Refusal(message: "the passphrase does not open the private key", isAboutPassphrase: true)
                : Refusal(message: "the private key is damaged or of an unknown kind")
        }
        return key
    }

    /// A key in an environment variable often has `\n` where its line breaks were.
    private static func unescaped(_ text: String) -> String {
        text.contains("\n") ? text : text.replacing("\\n", with: "\n")
    }
}

extension ConfigFields {
    /// A signer from a key, `passphrase`, `key_id` and `algorithm` of this mapping.
    func signer(
        key: String,
        algorithms: [JWTSigner.Algorithm] = JWTSigner.Algorithm.asymmetric,
        defaults: SigningKey.Defaults = SigningKey.Defaults()
    ) -> JWTSigner? {
        let algorithm = signingAlgorithm(of: algorithms)
        let keyID = string("key_id") ?? defaults.keyID
        guard let der = privateKey(key, defaults: defaults), let algorithm else { return nil }
        return signer(der, at: defaults.key?.place ?? key, algorithm: algorithm, keyID: keyID)
    }

    /// A signer from a key that was found in the text behind `place`.
    func signer(
        _ text: Secret,
        from place: String,
        algorithm: JWTSigner.Algorithm,
        keyID: String?
    ) -> JWTSigner? {
        do throws(SigningKey.Refusal) {
            let der = try SigningKey.open(text, passphrase: nil, with: context.secrets)
            return signer(der, at: place, algorithm: algorithm, keyID: keyID)
        } catch {
            self.error(place, error.message)
            return nil
        }
    }

    /// A signer from `key` and `passphrase`, or from `secret` when `algorithm` shares one with the verifier.
    func signerOrShared(key: String, secret: String) -> JWTSigner? {
        let shared = self.secret(secret)
        guard has(key) || has(secret) else {
            know("algorithm", "key_id", "passphrase")
            error(
                "signing needs \"\(key)\", a private key, or \"\(secret)\" for HS256, HS384 and HS512"
            )
            return nil
        }
        guard wantsSharedSecret else {
            guard has(secret) else { return signer(key: key, algorithms: JWTSigner.Algorithm.allCases) }
            know(key, "key_id", "passphrase")
            error(secret, "is for the algorithms HS256, HS384 and HS512")
            return nil
        }
        let algorithm = signingAlgorithm(of: JWTSigner.Algorithm.allCases)
        let keyID = string("key_id")
        for name in [key, "passphrase"] where has(name) {
            error(name, "is for a private key; this algorithm signs with \"\(secret)\"")
        }
        guard let shared, let algorithm else { return nil }
        return usable(secret, try JWTSigner(shared: shared, algorithm: algorithm, keyID: keyID))
    }

    private var wantsSharedSecret: Bool {
        guard case .scalar(let scalar)? = node("algorithm")?.content else { return false }
        return JWTSigner.Algorithm(rawValue: scalar.text)?.minimumSecret != nil
    }

    /// A private key in PEM, with the `passphrase` of this mapping when it is encrypted.
    func privateKey(_ key: String, defaults: SigningKey.Defaults = SigningKey.Defaults()) -> PrivateKeyDER? {
        let passphrase = secret("passphrase") ?? defaults.passphrase
        guard let text = defaults.key?.text ?? requiredSecretText(key) else { return nil }
        if has("passphrase"), passphrase == nil { return nil }
        do throws(SigningKey.Refusal) {
            return try SigningKey.open(text, passphrase: passphrase, with: context.secrets)
        } catch {
            let place = defaults.key?.place ?? key
            self.error(error.isAboutPassphrase && has("passphrase") ? "passphrase" : place, error.message)
            return nil
        }
    }

    /// - Parameter place: Where to report that the key does not fit.
    func signer(
        _ der: PrivateKeyDER,
        at place: String,
        algorithm: JWTSigner.Algorithm,
        keyID: String?
    ) -> JWTSigner? {
        usable(place, try JWTSigner(der, algorithm: algorithm, keyID: keyID))
    }

    /// RS256 unless it is given; nil after a mistake.
    private func signingAlgorithm(of choices: [JWTSigner.Algorithm]) -> JWTSigner.Algorithm? {
        guard has("algorithm") else { return .rs256 }
        return word("algorithm", of: choices.map(\.rawValue), suggests: false)
            .flatMap(JWTSigner.Algorithm.init(rawValue:))
    }
}
