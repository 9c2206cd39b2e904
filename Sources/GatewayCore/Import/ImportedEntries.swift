/// What an imported service becomes in the configuration: a credential, a route, and at times a file with a secret.
package struct ImportedEntries: Hashable, Sendable {
    /// A file that is still to be written, with mode 0600.
    package struct SecretFile: Hashable, Sendable {
        /// Its name in the folder for imported secrets.
        package let name: String
        package let secret: Secret
    }

    /// Of both, the credential and the route.
    package let name: String
    package let upstream: String
    /// Lines of YAML.
    package let credential: [String]
    package let route: [String]
    package let secretFile: SecretFile?
    /// Variables that the gateway needs.
    package let variables: [String]
    package let secret: ImportedSecret

    /// - Parameters:
    ///   - taken: Names of credentials, routes and secret files that are not to be given again.
    ///   - folder: The folder for imported secrets, as the configuration names it.
    package static func make(_ services: [ImportedService], taken: Set<String>, folder: String) -> [ImportedEntries] {
        var taken = taken
        return services.map { service in
            let name = ImportedName.free(service.name, among: taken)
            taken.insert(name)
            return ImportedEntries(service, name: name, folder: folder)
        }
    }

    private init(_ service: ImportedService, name: String, folder: String) {
        self.name = name
        upstream = service.upstream
        let place = service.preset.map { "preset: \($0)" } ?? "upstream: \(YAMLScalar.literal(service.upstream))"
        route = [place, "auth: \(YAMLScalar.text(name))"]
        secret = service.login.secret
        let reference: String
        var variables: [String] = []
        switch secret {
        case .clear(let value):
            secretFile = SecretFile(name: name, secret: value)
            reference = "{file: \(YAMLScalar.literal("\(folder)/\(name)"))}"
        case .environment(let variable):
            secretFile = nil
            reference = "{env: \(YAMLScalar.literal(variable))}"
            variables.append(variable)
        case .file(let path):
            secretFile = nil
            reference = "{file: \(YAMLScalar.literal(path))}"
        case .program(let words):
            secretFile = nil
            reference = "{exec: [\(words.map(YAMLScalar.literal).joined(separator: ", "))]}"
        }
        let lines = Self.lines(service.login, reference, &variables)
        // The preset says the strategy.
        credential = service.preset.map { ["preset: \($0)"] + lines.filter { !$0.hasPrefix("strategy: ") } } ?? lines
        self.variables = variables
    }

    private static func lines(_ login: ImportedLogin, _ secret: String, _ variables: inout [String]) -> [String] {
        switch login {
        case .bearer: return ["strategy: bearer", "token: \(secret)"]
        case .basic(let username, _):
            return ["strategy: basic", "username: \(text(username, &variables))", "password: \(secret)"]
        case .header(let name, let scheme, _):
            let name = name.lowercased() == "authorization" ? [] : ["name: \(YAMLScalar.literal(name))"]
            let scheme = scheme.map { ["scheme: \(YAMLScalar.literal($0))"] } ?? []
            return ["strategy: header"] + name + scheme + ["value: \(secret)"]
        case .query(let name, _): return ["strategy: header", "query: \(YAMLScalar.literal(name))", "value: \(secret)"]
        case .clientCredentials(let url, let client, let scopes, _):
            let scopes = scopes.isEmpty ? [] : ["scopes: [\(scopes.map(YAMLScalar.literal).joined(separator: ", "))]"]
            return [
                "strategy: oauth2_client_credentials", "token_url: \(YAMLScalar.literal(url))",
                "client_id: \(text(client, &variables))", "client_secret: \(secret)",
            ] + scopes
        }
    }

    private static func text(_ value: ImportedText, _ variables: inout [String]) -> String {
        switch value {
        case .text(let value): return YAMLScalar.literal(value)
        case .environment(let name):
            variables.append(name)
            return "${\(name)}"
        }
    }
}
