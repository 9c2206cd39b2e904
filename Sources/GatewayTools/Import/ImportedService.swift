import GatewayConfiguration
package import GatewayHTTP
import GatewayProxy

/// A service that another program's configuration signs in to, as it is taken over.
package struct ImportedService: Hashable, Sendable {
    package let upstream: String
    package let login: ImportedLogin
    /// What the names of the credential and the route begin with.
    package let name: String
    /// Gives the upstream and the strategy instead of ``upstream`` and ``login``.
    package let preset: String?

    /// - Parameters:
    ///   - name: nil makes one from the host of the upstream.
    ///   - preset: The preset of a service that takes the keys of the login, but uses them in another way.
    package init(upstream: String, login: ImportedLogin, name: String? = nil, preset: String? = nil) {
        self.upstream = upstream
        self.login = login
        self.preset = preset
        self.name = name.map(ImportedName.made(from:)) ?? ImportedName.made(fromURL: upstream)
    }
}

/// How a service is signed in to.
package enum ImportedLogin: Hashable, Sendable {
    case bearer(ImportedSecret)
    case basic(username: ImportedText, password: ImportedSecret)
    case header(name: String, scheme: String?, ImportedSecret)
    case query(name: String, ImportedSecret)
    /// RFC 6749 section 4.4.
    case clientCredentials(tokenURL: String, clientID: ImportedText, scopes: [String], ImportedSecret)

    package var secret: ImportedSecret {
        switch self {
        case .bearer(let secret), .basic(_, let secret), .header(_, _, let secret), .query(_, let secret),
            .clientCredentials(_, _, _, let secret):
            secret
        }
    }
}

/// A value that is no secret.
package enum ImportedText: Hashable, Sendable {
    case text(String)
    case environment(String)
}

/// Where the secret of an imported service is.
package enum ImportedSecret: Hashable, Sendable {
    /// Found in clear: it is put into a file of its own, never into the configuration.
    case clear(Secret)
    case environment(String)
    case file(String)
    case program([String])

    /// `$NAME` and `${NAME}` stand for a variable that no shell has put in.
    init(_ text: String) {
        let isBraced = text.hasPrefix("${") && text.hasSuffix("}")
        let name = isBraced ? text.dropFirst(2).dropLast() : text.dropFirst(text.hasPrefix("$") ? 1 : 0)
        let isName =
            name.first?.isNumber == false && name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
        self = text.hasPrefix("$") && isName ? .environment(String(name)) : .clear(Secret(text))
    }
}

/// What was found in a file, and what of it is left out.
package struct ImportFindings: Hashable, Sendable {
    package var services: [ImportedService] = []
    /// Sentences about what was not taken over, without secrets.
    package var notes: [String] = []

    package static let maximumServices = 256

    package init(_ services: [ImportedService] = [], notes: [String] = []) {
        self.services = services
        self.notes = notes
    }

    /// Each service once.
    mutating func add(_ service: ImportedService) {
        if !services.contains(service) { services.append(service) }
    }

    mutating func note(_ text: String) {
        if notes.count < 50, !notes.contains(text) { notes.append(text) }
    }
}

/// Names of credentials and routes for what has none here.
package enum ImportedName {
    private static let prefixes: Set<String> = ["www", "api", "app", "index", "registry", "registry-1"]
    private static let secondLevels: Set<String> = ["co", "com", "ac", "org", "gov", "net", "edu"]

    /// `https://api.github.com/v3` is `github`.
    static func made(fromURL url: String) -> String {
        let host = (try? RequestURL(url))?.host ?? url
        let labels = host.split(separator: ".").map(String.init)
        guard labels.count > 1, !labels.allSatisfy({ $0.allSatisfy(\.isNumber) }) else { return made(from: host) }
        var rest = labels.dropLast()
        if rest.count > 1, let last = rest.last, secondLevels.contains(last) { rest = rest.dropLast() }
        return made(from: rest.last(where: { !prefixes.contains($0) }) ?? labels[0])
    }

    /// Letters, digits and hyphens of it.
    package static func made(from text: String) -> String {
        let parts = text.lowercased().split { !($0.isASCII && ($0.isLetter || $0.isNumber)) }
        let name = String(parts.joined(separator: "-").prefix(48))
        return name.isEmpty ? "imported" : name
    }

    /// With a number behind it when it is taken.
    package static func free(_ name: String, among taken: Set<String>) -> String {
        guard taken.contains(name) else { return name }
        return (2...).lazy.map { "\(name)-\($0)" }.first { !taken.contains($0) } ?? name
    }
}

extension ImportedLogin {
    /// The header fields of other programs' configurations that may sign in.
    ///
    /// - Returns: nil when the field holds no credential.
    static func reading(field name: String, value: String) -> ImportedLogin? {
        let lower = name.lowercased()
        guard lower != "cookie", !value.isEmpty else { return nil }
        guard lower == "authorization" else {
            return SecretMask.isSensitive(lower) ? .header(name: name, scheme: nil, ImportedSecret(value)) : nil
        }
        let parts = value.split(separator: " ", maxSplits: 1).map(String.init)
        guard parts.count == 2 else { return .header(name: "Authorization", scheme: nil, ImportedSecret(value)) }
        let text = parts[1].trimmingBlanks
        switch parts[0].lowercased() {
        case "bearer": return .bearer(ImportedSecret(text))
        case "basic":
            guard let bytes = Base64.decode(text), let basic = reading(userInfo: String(decoding: bytes, as: UTF8.self))
            else { return .header(name: "Authorization", scheme: parts[0], ImportedSecret(text)) }
            return basic
        default: return .header(name: "Authorization", scheme: parts[0], ImportedSecret(text))
        }
    }

    /// `name:password` (RFC 7617).
    static func reading(userInfo: String) -> ImportedLogin? {
        guard let colon = userInfo.firstIndex(of: ":") else { return nil }
        let password = ImportedSecret(String(userInfo[userInfo.index(after: colon)...]))
        return .basic(username: .text(String(userInfo[..<colon])), password: password)
    }
}

extension String {
    var trimmingBlanks: String {
        var text = self[...]
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return String(text.drop { $0 == " " || $0 == "\t" })
    }
}

/// What an imported service becomes in the configuration: a credential, a route, and at times a file with a secret.
package struct ImportedEntries: Hashable, Sendable {
    /// A file that is still to be written, with mode 0600.
    package struct SecretFile: Hashable, Sendable {
        /// Its name in the folder for imported secrets.
        package let name: String
        package let secret: Secret
    }

    /// The name of both the credential and the route.
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
