import GatewayConfiguration
import GatewayHTTP

extension ConfigFields {
    /// A token that can stand behind `Bearer`.
    func bearerToken(_ key: String, isRequired: Bool = false) -> Secret? {
        guard let token = isRequired ? requiredSecret(key) : secret(key) else { return nil }
        guard token.withValue(FieldSyntax.isValue) else {
            error(key, "a token is visible ASCII without a space at either end")
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
}
