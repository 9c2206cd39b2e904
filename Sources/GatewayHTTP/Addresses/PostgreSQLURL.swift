/// Where a PostgreSQL database is: a connection URI as libpq reads it (PostgreSQL documentation, section 34.1.1.2).
///
/// The gateway reads the URL itself, so that an error can say what is wrong and never shows a password.
package struct PostgreSQLURL: Hashable, Sendable {
    package struct Host: Hashable, Sendable {
        /// A name, an address, or the folder of a Unix socket.
        package let name: String
        package let port: Int?

        package init(name: String, port: Int?) {
            self.name = name
            self.port = port
        }

        package var isSocket: Bool { name.hasPrefix("/") }

        /// No other machine can read what goes there.
        package var isLocal: Bool {
            if isSocket || name == "localhost" { return true }
            guard let address = IPAddress(name) else { return false }
            return address.bytes.count == 4
                ? address.bytes[0] == 127 : address.bytes.dropLast().allSatisfy { $0 == 0 } && address.bytes.last == 1
        }

        package var description: String {
            let name = Origin.urlHost(name)
            return port.map { "\(name):\($0)" } ?? name
        }
    }

    /// Tried in this order. Empty when a service of libpq's service file says where the database is.
    package private(set) var hosts: [Host] = []
    package private(set) var user: String?
    package private(set) var database: String?
    package private(set) var password: Secret?
    /// What stands behind the question mark, without `host` and `port`.
    package private(set) var parameters: [String: String] = [:]

    /// What is wrong with a URL. Tests tell the reasons apart; people read ``message``.
    package enum Mistake: Error, Hashable, Sendable {
        case scheme
        case escape
        case host
        case port
        case manyPorts
        case parameter(String)
        case unknownParameter(String)
        case repeatedParameter(String)
        case sslmode(String)
        case noHost
    }

    package init(_ text: String) throws(Mistake) {
        guard let start = ["postgresql://", "postgres://"].first(where: { text.hasPrefix($0) }) else { throw .scheme }
        var rest = text.dropFirst(start.count)
        var query: Substring = ""
        if let mark = rest.firstIndex(of: "?") {
            query = rest[rest.index(after: mark)...]
            rest = rest[..<mark]
        }
        if let slash = rest.firstIndex(of: "/") {
            let raw = rest[rest.index(after: slash)...]
            // A password with a slash in it: what follows must not be taken, and then shown, as a database.
            guard !raw.contains("@") else { throw .host }
            let name = try Self.decoded(raw)
            database = name.isEmpty ? nil : name
            rest = rest[..<slash]
        }
        // The last one: a password with an @ in it is no part of the host.
        if let at = rest.lastIndex(of: "@") {
            try readUser(rest[..<at])
            rest = rest[rest.index(after: at)...]
        }
        try readParameters(query)
        try readHosts(rest)
        guard !hosts.isEmpty || parameters["service"] != nil else { throw .noHost }
        if let mode = parameters["sslmode"], !Self.modes.contains(mode) { throw .sslmode(mode) }
    }

    private mutating func readUser(_ text: Substring) throws(Mistake) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let name = try Self.decoded(parts[0])
        user = name.isEmpty ? nil : name
        guard parts.count == 2 else { return }
        let word = try Self.decoded(parts[1])
        password = word.isEmpty ? nil : Secret(word)
    }

    private mutating func readParameters(_ query: Substring) throws(Mistake) {
        for pair in query.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = try Self.decoded(parts[0])
            guard Self.names.contains(name) else { throw .unknownParameter(name) }
            guard parts.count == 2 else { throw .parameter(name) }
            let value = try Self.decoded(parts[1])
            guard !value.isEmpty else { throw .parameter(name) }
            switch name {
            case "password": password = Secret(value)
            case "user": user = value
            case "dbname": database = value
            default:
                guard parameters.updateValue(value, forKey: name) == nil else { throw .repeatedParameter(name) }
            }
        }
    }

    private mutating func readHosts(_ authority: Substring) throws(Mistake) {
        var found: [Host] = []
        for part in authority.split(separator: ",", omittingEmptySubsequences: false) where !authority.isEmpty {
            found.append(try Self.host(part))
        }
        if let names = parameters.removeValue(forKey: "host") {
            // libpq: those of the parameter count.
            found = names.split(separator: ",").map { Host(name: String($0), port: nil) }
        }
        if let ports = parameters.removeValue(forKey: "port") {
            let numbers = ports.split(separator: ",").map { Int($0) }
            guard numbers.allSatisfy({ $0.map((1...65535).contains) == true }) else { throw .port }
            guard numbers.count == 1 || numbers.count == found.count else { throw .manyPorts }
            found = found.indices.map {
                Host(name: found[$0].name, port: numbers.count == 1 ? numbers[0] : numbers[$0])
            }
        }
        guard found.allSatisfy({ Self.isHost($0.name) }) else { throw .host }
        hosts = found
    }

    private static func host(_ text: Substring) throws(Mistake) -> Host {
        var (name, port) = (text, Substring?.none)
        if text.hasPrefix("[") {
            guard let end = text.firstIndex(of: "]") else { throw .host }
            name = text[text.index(after: text.startIndex)..<end]
            let after = text[text.index(after: end)...]
            guard after.isEmpty || after.hasPrefix(":") else { throw .host }
            port = after.isEmpty ? nil : after.dropFirst()
        } else if let colon = text.firstIndex(of: ":") {
            (name, port) = (text[..<colon], text[text.index(after: colon)...])
        }
        guard let port, !port.isEmpty else { return Host(name: try decoded(name), port: nil) }
        guard let number = Int(port), (1...65535).contains(number) else { throw .port }
        return Host(name: try decoded(name), port: number)
    }

    /// A part of a password that was not escaped must not be taken, and then shown, as a host.
    private static func isHost(_ name: String) -> Bool {
        if name.hasPrefix("/") { return name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } }
        return !name.isEmpty
            && name.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
                default: "-._:%".utf8.contains(byte)
                }
            }
    }

    private static func decoded(_ text: Substring) throws(Mistake) -> String {
        guard let decoded = PercentEncoding.decode(String(text)), !decoded.utf8.contains(0) else { throw .escape }
        return decoded
    }

    static let modes = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]

    /// What may stand behind the question mark. The gateway sets the others itself.
    static let names: Set<String> = [
        "application_name", "channel_binding", "dbname", "gssencmode", "host", "hostaddr", "krbsrvname", "passfile",
        "password", "port", "service", "ssl_max_protocol_version", "ssl_min_protocol_version", "sslcert", "sslcrl",
        "sslcrldir", "sslkey", "sslmode", "sslrootcert", "sslsni", "target_session_attrs", "tcp_user_timeout", "user",
    ]

    /// The hosts that could be imitated, because the URL asks for less than `verify-full`; nil when none could.
    package var unprotectedServer: String? {
        guard let mode = parameters["sslmode"], mode != "verify-full" else { return nil }
        if hosts.isEmpty { return description }
        return hosts.first { !$0.isLocal }?.description
    }
}

extension PostgreSQLURL.Mistake {
    /// For the person who wrote the URL. Repeats no part of it that could belong to a password.
    package var message: String {
        switch self {
        case .scheme: "a PostgreSQL URL begins with \"postgresql://\""
        case .escape:
            "a % in the URL must begin an escape such as %40; write % in a password as %25, or give the password as the key "
                + "\"password\""
        case .host:
            "the host of the URL is not valid; in a user name or a password, write @ as %40, / as %2F and ? as %3F, or give "
                + "the password as the key \"password\""
        case .port:
            "the port of the URL is not a number from 1 to 65535; in a password, write : as %3A and / as %2F, or give the "
                + "password as the key \"password\""
        case .manyPorts: "the URL needs one port, or one for each host"
        case .parameter(let name): "the parameter \"\(name)\" of the URL has no value"
        case .unknownParameter:
            "the URL has a parameter that is not supported; supported are "
                + PostgreSQLURL.names.sorted().joined(separator: ", ")
        case .repeatedParameter(let name): "the URL has the parameter \"\(name)\" twice"
        case .sslmode: "sslmode of the URL must be one of \(PostgreSQLURL.modes.joined(separator: ", "))"
        case .noHost:
            "the URL names no host; write postgresql://HOST/DATABASE, ?host=/run/postgresql for a Unix socket, or ?service=NAME"
        }
    }
}

extension PostgreSQLURL: CustomStringConvertible {
    /// Without the password, for messages.
    package var description: String {
        let place = hosts.map(\.description).joined(separator: ",")
        guard !place.isEmpty else { return "service \(parameters["service"] ?? "")" }
        return database.map { "\(place)\(place.hasPrefix("/") ? " database " : "/")\($0)" } ?? place
    }
}

extension PostgreSQLURL: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) {
        bytes.add(hosts.map(\.description))
        bytes.add(database)
        bytes.add(user)
        bytes.add(parameters.sorted { $0.key < $1.key }) { bytes, parameter in
            bytes.add(parameter.key)
            bytes.add(parameter.value)
        }
        bytes.add(password)
    }
}

/// A PostgreSQL database and how to reach it.
package struct PostgreSQLPlan: Hashable, Sendable {
    package var url: PostgreSQLURL
    /// Where a pooler is at ``url``: the server itself, for LISTEN.
    package var listenURL: PostgreSQLURL?
    /// For both URLs, unless they hold one.
    package var password: Secret?
    /// The file with the authorities that the server's certificate must come from; nil for those of the system.
    package var authorities: String?

    package init(url: PostgreSQLURL) { self.url = url }
}
