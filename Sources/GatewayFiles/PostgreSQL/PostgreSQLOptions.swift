package import GatewayHTTP

/// How to reach a database.
package struct PostgreSQLOptions: Sendable {
    package var url: PostgreSQLURL
    /// Instead of one in the URL.
    package var password: Secret?
    /// The certificate authorities of the server, in PEM; nil for those of the system.
    package var authorities: String?
    /// What `pg_stat_activity` shows.
    var applicationName: String
    /// The channel to listen on; nil for a connection that only runs statements.
    package var channel: String?
    /// How long one host may take to answer while connecting.
    var connectLimit: Duration = .seconds(7)

    package init(
        _ url: PostgreSQLURL,
        password: Secret? = nil,
        authorities: String? = nil,
        name: String = "authgateway"
    ) {
        self.url = url
        self.password = password
        self.authorities = authorities
        applicationName = name
    }

    /// What libpq is told, for each host in turn: an array of names and values.
    ///
    /// Each host has a deadline of its own, which libpq's asynchronous calls do not have.
    var attempts: [[(name: String, value: String)]] {
        // What a service file leads to may be anywhere.
        guard !url.hosts.isEmpty else { return [common + verification(isLocal: false)] }
        return url.hosts.map { host in
            var settings = common
            settings.append(("host", host.name))
            if let port = host.port { settings.append(("port", String(port))) }
            return host.isSocket ? settings : settings + verification(isLocal: host.isLocal)
        }
    }

    /// Makes the server end the session of a gateway that it cannot reach, unless the server has settings of its own.
    ///
    /// By default, such a session stays for two hours. Each cut of the network would cost the server some of its connections. The
    /// settings have no effect on Unix sockets.
    static let serverSide = PostgreSQLStatement(
        "SELECT set_config(name, value, false) FROM (VALUES ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'),"
            + " ('tcp_keepalives_count', '3'), ('tcp_user_timeout', '25000')) AS wanted (name, value)"
            + " JOIN pg_settings USING (name) WHERE source = 'default'"
    )

    private func verification(isLocal: Bool) -> [(name: String, value: String)] {
        let mode = url.parameters["sslmode"] ?? (isLocal && authorities == nil ? "prefer" : "verify-full")
        var settings: [(name: String, value: String)] = url.parameters["sslmode"] == nil ? [("sslmode", mode)] : []
        // With a file of authorities, libpq verifies in the weaker modes, too.
        let file = authorities ?? (mode.hasPrefix("verify") ? SystemAuthorities.path : nil)
        if let file, url.parameters["sslrootcert"] == nil { settings.append(("sslrootcert", file)) }
        return settings
    }

    private var common: [(name: String, value: String)] {
        var settings = url.parameters.map { (name: $0.key, value: $0.value) }.sorted { $0.name < $1.name }
        func add(_ name: String, _ value: String?) {
            guard let value, url.parameters[name] == nil else { return }
            settings.append((name, value))
        }
        add("user", url.user)
        add("dbname", url.database)
        add("password", (password ?? url.password)?.withValue { $0 })
        add("application_name", applicationName)
        settings.append(("client_encoding", "UTF8"))
        // With several hosts, the primary is looked for: a standby takes no writes.
        if url.hosts.count > 1 { add("target_session_attrs", "read-write") }
        // An address that takes packets and answers none is given up, and the next address of the host is tried.
        add("tcp_user_timeout", "3000")
        settings += [("keepalives_idle", "10"), ("keepalives_interval", "5"), ("keepalives_count", "3")]
        return settings
    }
}

/// The certificate authorities of the system. libpq 15 does not find them by itself.
enum SystemAuthorities {
    /// nil where none of the usual files is there: libpq then looks for ~/.postgresql/root.crt.
    static var path: String? {
        ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"].first {
            unsafe access($0, R_OK) == 0
        }
    }
}

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif
