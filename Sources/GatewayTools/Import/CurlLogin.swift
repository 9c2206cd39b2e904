package import GatewayHTTP
import GatewayProxy

/// Takes the login out of a curl command: its URL, and the field or parameter that signs in.
package enum CurlLogin {
    package static func services(_ text: String) throws(UnusableInput) -> ImportFindings {
        guard case .request(let request) = try ExplainInput(text) else {
            throw UnusableInput("This is not a curl command.")
        }
        guard let origin = request.url.origin, request.url.scheme != nil else {
            throw UnusableInput("The URL names no host.")
        }
        var findings = ImportFindings()
        let logins =
            request.fields.compactMap { ImportedLogin.reading(field: $0.name, value: $0.value) }
            + parameters(request.url.query)
        guard let login = logins.first else {
            throw UnusableInput(
                "The command has no credential: no -u, no Authorization, no field or parameter with a key."
            )
        }
        try requireWhole(login)
        if logins.count > 1 { findings.note("Only the first of \(logins.count) credentials was taken over.") }
        if request.fields.contains(where: { $0.name.lowercased() == "cookie" }) {
            findings.note("The cookie was left out: it expires, and nothing renews it.")
        }
        findings.add(ImportedService(upstream: origin.description, login: login))
        return findings
    }

    private static func requireWhole(_ login: ImportedLogin) throws(UnusableInput) {
        if case .header(_, let scheme?, _) = login, scheme.lowercased() == "basic" {
            throw UnusableInput("curl would ask for the password. Write it: -u USER:PASSWORD, or -u USER:$VARIABLE.")
        }
        guard case .clear(let secret) = login.secret else { return }
        if secret.withValue({ $0.contains("$(") || $0.contains("`") }) {
            throw UnusableInput(
                "A program prints the secret: $(…). Put its output into a variable, and write $VARIABLE instead."
            )
        }
    }

    private static func parameters(_ query: String) -> [ImportedLogin] {
        query.dropFirst().split(separator: "&").compactMap { (parameter: Substring) -> ImportedLogin? in
            guard let equals = parameter.firstIndex(of: "="), equals < parameter.index(before: parameter.endIndex)
            else {
                return nil
            }
            let name = String(parameter[..<equals])
            guard SecretMask.isSensitive(name) else { return nil }
            let value = String(parameter[parameter.index(after: equals)...])
            return .query(name: name, ImportedSecret(PercentEncoding.decode(value) ?? value))
        }
    }
}
