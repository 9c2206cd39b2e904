import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

extension ConfigFields {
    /// A token that can stand behind `Bearer`.
    func bearerToken(_ key: String, isRequired: Bool = false) -> Secret? {
        guard let token = isRequired ? requiredSecret(key) : secret(key) else { return nil }
        guard token.withValue(FieldSyntax.isValue) else {
            error(key, "must be visible ASCII without a space at either end or a byte order mark")
            return nil
        }
        guard !token.withValue({ $0.lowercased().hasPrefix("bearer ") }) else {
            error(key, "begins with the scheme; the gateway writes \"Bearer\" itself")
            return nil
        }
        return token
    }

    static let colonInUsername = "must not contain \":\", which ends the user name (RFC 7617)"

    /// The user name of `Basic` credentials.
    func basicUsername(_ key: String, isRequired: Bool = false) -> String? {
        guard let username = isRequired ? requiredString(key) : string(key) else { return nil }
        guard !username.contains(":") else {
            // The password stands there, too, most likely.
            node(key).map(context.hide)
            error(key, Self.colonInUsername)
            return nil
        }
        return username
    }

    /// Where a mapping with a secret is expected, anything else may be the secret itself.
    func hideUnlessMapping(_ key: String) {
        guard let node = node(key) else { return }
        if case .mapping = node.content { return }
        context.hide(node)
    }

    /// The text of a file whose path stands here, or of a secret such as `{env: NAME}`.
    func fileOrSecret(_ key: String) -> Secret? {
        guard case .scalar? = node(key)?.content else { return requiredSecretText(key) }
        guard let path = string(key), let span = node(key)?.span,
            let text = usable(key, try context.secrets.file(context.resolve(path, at: span)))
        else { return nil }
        context.noteSecret(at: span)
        return text
    }

    /// The name of a header field that a credential may occupy.
    func fieldName(_ key: String) -> String? {
        string(key).flatMap { checkedFieldName($0, at: key) }
    }

    /// A key that is itself the name of a header field.
    func fieldName(named key: String) -> String? { checkedFieldName(key, at: key) }

    private func checkedFieldName(_ name: String, at key: String) -> String? {
        if name.hasPrefix(":") {
            error(key, "names a pseudo-header field of HTTP/2, not a header field")
        } else if !FieldSyntax.isToken(name) {
            error(key, "not a valid header field name")
        } else if FieldSyntax.reserved.contains(FieldSyntax.slot(name)) {
            error(key, "this field belongs to the connection, not to a credential")
        } else {
            return name
        }
        return nil
    }

    /// The text of a file of certificates in PEM.
    func certificates(_ key: String) -> String? {
        guard let path = filePath(key) else { return nil }
        return usable(key, try context.secrets.certificates(path))
    }

    /// An assertion that others issue: `{file: PATH}` or `{github_actions: {audience: AUDIENCE}}`. nil after a mistake.
    func requiredAssertion(_ key: String) -> AssertionSource? {
        hideUnlessMapping(key)
        if !has(key) { missing(key) }
        guard let own = fields(key) else { return nil }
        defer { own.refuseUnknownKeys() }
        own.explain(SharedMeanings.assertion)
        let file = own.filePath("file")
        let audience = own.gitHubAudience()
        switch (own.has("file"), own.has("github_actions")) {
        case (true, false): return file.map { .file($0) }
        case (false, true):
            return audience.flatMap { own.gitHubActions(for: $0) }.map { .service($0) }
        case (true, true), (false, false):
            own.error("comes from exactly one of file and github_actions")
            return nil
        }
    }

    private func gitHubAudience() -> String? {
        guard let own = fields("github_actions") else { return nil }
        defer { own.refuseUnknownKeys() }
        own.explain(SharedMeanings.gitHubActions)
        return own.requiredString("audience")
    }
}

extension ClientTLS {
    /// Reads `tls: {certificate, private_key, passphrase, ca}`.
    init?(in fields: ConfigFields) {
        guard let own = fields.fields("tls") else { return nil }
        defer { own.refuseUnknownKeys() }
        own.explain(SharedMeanings.clientTLS)
        if !own.has("certificate") { own.missing("certificate") }
        let (chain, authorities) = (own.certificates("certificate"), own.certificates("ca"))
        let key = own.privateKey("private_key")
        guard let chain, let key, !own.has("ca") || authorities != nil else { return nil }
        self.init(certificates: chain, privateKey: key, authorities: authorities)
        if !own.context.secrets.fits(self) {
            own.error("private_key", "does not belong to the first certificate of \"certificate\"")
        }
    }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("tls.certificate", certificates)
        identity.add("tls.private_key", secret: privateKey.text)
        identity.add("tls.ca", authorities)
    }
}
