import GatewayCore

extension ConfigFields {
    /// `scopes`; empty when there are none.
    func scopes() -> [String] {
        let scopes = strings("scopes") ?? []
        for scope in scopes where !Self.isScope(scope) {
            error("scopes", "a scope is visible ASCII without spaces; write each as an element of its own")
        }
        return scopes
    }

    /// RFC 6749 appendix A.4.
    private static func isScope(_ text: String) -> Bool {
        text.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
    }

    /// `parameters`: whatever else the authority wants in the form.
    ///
    /// - Parameters:
    ///   - own: What the strategy writes itself, besides what every one of them writes.
    ///   - refreshes: Whether there is `refresh_parameters` as well.
    func extraParameters(own: Set<String> = [], refreshes: Bool = false) -> [TokenRequest.Parameter] {
        let scopeKey = refreshes ? "scopes, or refresh_parameters for the scope of a refresh" : "scopes"
        return parameters("parameters", own: own.union(["scope"])) { name in
            name == "scope" ? "use \(scopeKey)" : "it has a key of its own"
        }
    }

    /// `refresh_parameters`: whatever else the authority wants in the form of a refresh. Some want a scope, which no refresh has
    /// otherwise (RFC 6749 section 6).
    func refreshParameters() -> [TokenRequest.Parameter] {
        parameters("refresh_parameters", own: ["refresh_token"]) { _ in "it has a key of its own" }
    }

    private func parameters(
        _ key: String,
        own: Set<String>,
        advice: (String) -> String
    ) -> [TokenRequest.Parameter] {
        let parameters = valueMap(key) ?? []
        // Some authorities want a second secret there, and nothing but its name would tell.
        if let node = node(key) { context.hide(node) }
        for (name, _) in parameters where own.union(Self.ownParameters).contains(name) {
            error(key, "\"\(name)\" is written by the strategy; \(advice(name))")
        }
        return parameters.map { TokenRequest.Parameter($0.name, $0.value) }
    }

    private static let ownParameters: Set<String> = [
        "grant_type", "client_id", "client_secret", "client_assertion", "client_assertion_type",
    ]
}

extension GrantIdentity {
    mutating func add(_ parameters: [TokenRequest.Parameter]) {
        for parameter in parameters { add("parameters.\(parameter.name)", secret: parameter.value) }
    }
}

extension [TokenRequest.Parameter] {
    /// `scope`, when there are any.
    static func scope(_ scopes: [String]) -> Self {
        scopes.isEmpty ? [] : [TokenRequest.Parameter("scope", scopes.joined(separator: " "))]
    }
}
