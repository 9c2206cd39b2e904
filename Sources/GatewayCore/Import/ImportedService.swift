/// A service that another program's configuration signs in to, as it is taken over.
package struct ImportedService: Hashable, Sendable {
    package let upstream: String
    package let login: ImportedLogin
    /// What the names of the credential and the route begin with.
    package let name: String
    /// Says the upstream and the strategy in the place of ``upstream`` and ``login``.
    package let preset: String?

    /// - Parameters:
    ///   - name: nil makes one from the host of the upstream.
    ///   - preset: Of a service that takes the keys of the login, but uses them in another way.
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

/// Why nothing can be imported: one sentence, without a secret.
package struct ImportError: Error, Hashable, Sendable {
    package let message: String
    package init(_ message: String) { self.message = message }
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
