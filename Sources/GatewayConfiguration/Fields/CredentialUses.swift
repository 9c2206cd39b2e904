/// Who needs a credential, as the text of the configuration says it: also of one that has mistakes.
package struct CredentialUses: Hashable, Sendable {
    /// Names of routes, in the order of the configuration.
    package private(set) var routes: [String] = []
    /// Names of credentials whose `parent` it is.
    package private(set) var credentials: [String] = []

    package init(of name: String, in root: ConfigNode) {
        for route in root.entries(of: "routes") {
            guard let auth = route.value.value(of: "auth") else { continue }
            if auth.isText(name) || auth.value(of: "credential")?.isText(name) ?? false
                || auth.value(of: "parent")?.isText(name) ?? false
            {
                routes.append(route.key)
            }
        }
        for credential in root.entries(of: "credentials")
        where credential.value.value(of: "parent")?.isText(name) ?? false {
            credentials.append(credential.key)
        }
    }
}

extension ConfigNode {
    fileprivate func isText(_ text: String) -> Bool {
        guard case .scalar(let scalar) = content else { return false }
        return scalar.text == text
    }
}
