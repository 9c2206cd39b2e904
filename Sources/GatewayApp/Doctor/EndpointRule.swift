package import GatewayHTTP
package import GatewayLocalAuthority
import GatewayTokens

/// A server that the gateway connects to, and the routes or credentials that need it.
package struct DoctorEndpoint: Hashable, Sendable {
    package enum Role: Hashable, Sendable {
        case upstream
        case authority
    }

    package let role: Role
    package let origin: Origin
    /// Names of routes or of credentials.
    package let users: [String]
    /// The proxy that it is reached through, as messages name it; nil for none.
    package let proxy: String?

    package init(_ role: Role, _ origin: Origin, users: [String], through proxy: String? = nil) {
        self.role = role
        self.origin = origin
        self.users = users
        self.proxy = proxy
    }

    fileprivate var group: DoctorFinding.Group { role == .upstream ? .upstreams : .authorities }
    fileprivate var owners: String { DoctorFinding.names(users) }
    /// The routes that use an upstream, as text.
    fileprivate var routes: String { (users.count == 1 ? "route " : "the routes ") + owners }
    fileprivate var way: String { proxy.map { " through the proxy \($0)" } ?? "" }
}

/// Findings about a connection to an upstream or an authorization server. One cause makes one error.
package enum EndpointRule {
    /// A certificate that ends sooner is a warning.
    package static let notice: Duration = Expiration.Kind.certificate.notice

    package static func findings(
        of endpoint: DoctorEndpoint,
        _ outcome: EndpointOutcome,
        at now: UnixTime
    ) -> [DoctorFinding] {
        switch outcome {
        case .connected(let took, let end): connected(endpoint, took, end, now)
        case .failed(let cause): failed(endpoint, cause, now)
        }
    }

    /// With `--offline`.
    package static func offline(_ endpoint: DoctorEndpoint) -> [DoctorFinding] {
        reach(endpoint, .skipped, "not checked (--offline)")
    }

    /// There are so many that there was no time for this one.
    package static func unchecked(_ endpoint: DoctorEndpoint, within limit: Duration) -> [DoctorFinding] {
        let text = "not checked: there are too many for \(ConfigUnits.text(limit))"
        return reach(endpoint, .skipped, text, "Check all, however long it takes.", command: "authgateway doctor --all")
    }

    // MARK: Connected

    private static func connected(
        _ endpoint: DoctorEndpoint,
        _ took: Duration,
        _ end: UnixTime?,
        _ now: UnixTime
    ) -> [DoctorFinding] {
        let time = "\(max(1, took.wholeMilliseconds)) ms"
        let (text, gathered) =
            endpoint.role == .upstream
            ? ("\(accepts(endpoint)) (\(time)); \(unsent)", "\(accepts(endpoint)); \(unsent)")
            : ("answers (\(time)); used by \(endpoint.owners)", "answers")
        return name(endpoint) + (end.map { [security(endpoint, end: $0, now)] } ?? [])
            + reach(endpoint, .ok, text, gathered: gathered)
    }

    private static let unsent = "no request was sent, because it could change something there"

    private static func accepts(_ endpoint: DoctorEndpoint) -> String {
        // Without TLS there is no CONNECT: the proxy connects to the upstream when it gets a request.
        guard let proxy = endpoint.proxy, endpoint.origin.scheme == .http else { return "accepts connections" }
        return "not seen, because it is behind the proxy \(proxy), which accepts connections"
    }

    /// A proxy looks the name up itself.
    private static func name(_ endpoint: DoctorEndpoint) -> [DoctorFinding] {
        endpoint.origin.isAddress || endpoint.proxy != nil
            ? [] : [DoctorFinding(.names, .ok, endpoint.origin.host, "resolves")]
    }

    private static func security(_ endpoint: DoctorEndpoint, end: UnixTime, _ now: UnixTime) -> DoctorFinding {
        let (left, subject) = (end - now, "\(endpoint.origin)")
        let text =
            "trusted; the certificate expires on \(day(end)), in \(ConfigUnits.countdown(left.secondsLeft))"
        guard left < notice else {
            let gathered = "trusted; the certificates do not expire soon"
            return DoctorFinding(.tls, .ok, subject, text, gathered: gathered)
        }
        return DoctorFinding(
            .tls,
            .warning,
            subject,
            text,
            gathered: "trusted; the certificates expire soon",
            remedy: "Ask the operator of \(endpoint.origin.host) whether it will be renewed in time."
        )
    }

    // MARK: Failed

    private static func failed(
        _ endpoint: DoctorEndpoint,
        _ cause: EndpointOutcome.Cause,
        _ now: UnixTime
    ) -> [DoctorFinding] {
        switch cause {
        case .nameUnknown:
            return badName(endpoint, "cannot be resolved", "Correct the name in the configuration, or DNS.")
        case .nameOverdue: return badName(endpoint, "was not resolved in time", "See whether the name server answers.")
        case .nameProhibited:
            return badName(
                endpoint,
                "resolves to a link-local address or to a metadata service; the gateway never connects to those by name",
                "Correct DNS, or name the address itself in the configuration."
            )
        case .refused: return unreachable(endpoint, "does not accept connections", "Start it, or correct its address.")
        case .overdue:
            return unreachable(endpoint, "did not answer in time", "See whether a firewall drops the packets.")
        case .exhausted:
            let text = "was not tried: no file descriptors, memory or threads are left for this process"
            return reach(endpoint, .error, text, "Raise its limits.", command: "ulimit -a")
        case .proxy(let detail):
            let remedy = "See \"proxy\" in the configuration, and what the log of the proxy says."
            return reach(endpoint, .error, "is not reached: \(detail)", remedy)
        case .noHTTP: return unreachable(endpoint, "does not speak HTTP", "Find out which program listens there.")
        case .certificate, .wrongKey, .alert, .handshake:
            let text = "accepts connections\(endpoint.way), and TLS fails (see tls)"
            return name(endpoint) + [badSecurity(endpoint, cause, now)] + reach(endpoint, .skipped, text)
        }
    }

    private static func badName(_ endpoint: DoctorEndpoint, _ text: String, _ remedy: String) -> [DoctorFinding] {
        let host = endpoint.origin.host
        let command = "getent ahosts \(ShellWord.quoted(host))"
        let name = DoctorFinding(.names, .error, host, text, gathered: text, remedy: remedy, command: command)
        return [name] + reach(endpoint, .skipped, "its name has no address (see names)")
    }

    private static func unreachable(_ endpoint: DoctorEndpoint, _ text: String, _ remedy: String) -> [DoctorFinding] {
        let url = ShellWord.quoted("\(endpoint.origin)/")
        let command = endpoint.proxy == nil ? "curl -sv --max-time 5 -o /dev/null \(url)" : nil
        return name(endpoint) + reach(endpoint, .error, text + endpoint.way, remedy, command: command)
    }

    private static func badSecurity(
        _ endpoint: DoctorEndpoint,
        _ cause: EndpointOutcome.Cause,
        _ now: UnixTime
    ) -> DoctorFinding {
        let origin = endpoint.origin
        func finding(_ text: String, _ remedy: String, isOurs: Bool = false) -> DoctorFinding {
            let text = text + (endpoint.proxy.map { "; the connection goes through the proxy \($0)" } ?? "")
            return DoctorFinding(
                .tls,
                .error,
                "\(origin)",
                text,
                gathered: text,
                remedy: remedy,
                command: isOurs || endpoint.proxy != nil ? nil : show(origin)
            )
        }
        switch cause {
        case .certificate(let seen?) where seen.end <= now:
            let remedy = "The operator of \(origin.host) has to renew it."
            return finding("the certificate expired on \(day(seen.end))", remedy)
        case .certificate(let seen?) where seen.start > now:
            let remedy = "Check the clock of this machine."
            return finding("the certificate is not valid before \(day(seen.start))", remedy)
        case .certificate(let seen?) where !isNamed(origin.host, in: seen.names):
            let names = seen.names.prefix(5).joined(separator: ", ")
            return finding(
                "the certificate is for \(names.isEmpty ? "no name" : names)",
                endpoint.role == .upstream
                    ? "If that is the right server, set tls.server_name of the route to that name."
                    : "Correct the address of the authorization server."
            )
        case .wrongKey(let pin):
            let remedy =
                "If the server really has a new key, add this pin to tls.pin of \(endpoint.routes)."
            return finding("the certificate has a key that tls.pin does not name: \(pin)", remedy)
        case .alert(let alert):
            return finding(
                "the server refused the TLS connection with the alert \(alert.name)",
                alert.meaning(owner: endpoint.role == .upstream ? endpoint.routes : "the credential")
                    ?? "See what the server's log says."
            )
        case .certificate:
            return finding(
                "the certificate comes from a certificate authority that this machine does not trust",
                trust(endpoint)
            )
        default:
            return finding(
                "the TLS handshake failed",
                """
                If the server speaks plain HTTP on this port, write http:// instead. Otherwise see what it says: the gateway needs TLS \
                1.2 or newer, and the server may need a client certificate.
                """
            )
        }
    }

    private static func trust(_ endpoint: DoctorEndpoint) -> String {
        switch endpoint.role {
        case .upstream: "If that CA is your own, name its certificate (PEM) in tls.ca of \(endpoint.routes)."
        case .authority:
            "If that CA is your own, add its certificate to those that this machine trusts (update-ca-certificates)."
        }
    }

    /// The command that shows what the server sends.
    private static func show(_ origin: Origin) -> String {
        "openssl s_client -connect \(ShellWord.quoted(origin.hostAndPort)) </dev/null"
    }

    /// A star stands for one label (RFC 9525 section 6.3).
    private static func isNamed(_ host: String, in names: [String]) -> Bool {
        let rest = host.split(separator: ".", omittingEmptySubsequences: false).dropFirst().joined(separator: ".")
        return names.contains { $0.lowercased() == host || $0.lowercased() == "*.\(rest)" }
    }

    // MARK: Per user

    /// One finding for each route; one for each authority.
    ///
    /// - Parameter gathered: What it says of many, where that is not `text`.
    private static func reach(
        _ endpoint: DoctorEndpoint,
        _ level: DoctorFinding.Level,
        _ text: String,
        gathered: String? = nil,
        _ remedy: String? = nil,
        command: String? = nil
    ) -> [DoctorFinding] {
        let origin = "\(endpoint.origin)"
        let common = gathered ?? text
        func finding(_ subject: String, _ text: String) -> DoctorFinding {
            DoctorFinding(endpoint.group, level, subject, text, gathered: common, remedy: remedy, command: command)
        }
        return switch endpoint.role {
        case .upstream: endpoint.users.map { finding($0, "\(origin) \(text)") }
        case .authority: [finding(origin, text)]
        }
    }

    private static func day(_ time: UnixTime) -> String { String(time.rfc3339.prefix(10)) }
}

/// What the clocks of the authorities say of this machine's.
package enum ClockRule {
    /// A `Date` field has whole seconds, and the answer took its time.
    static let tolerance: Duration = .seconds(5)
    /// From here on, authorization servers refuse what is signed here, and tokens seem to end early or late.
    package static let limit: Duration = .seconds(60)

    package struct Reading: Hashable, Sendable {
        package let authority: Origin
        /// How far this machine's clock is ahead of the authorization server's; negative when it is behind.
        let ahead: Duration

        package init(authority: Origin, ahead: Duration) {
            self.authority = authority
            self.ahead = ahead
        }

        /// - Parameters:
        ///   - date: The server's, which it cut to whole seconds: half a second later is the best guess.
        ///   - sent: When the request left.
        ///   - received: When the answer was there.
        package init(authority: Origin, date: UnixTime, sent: UnixTime, received: UnixTime) {
            let middle = UnixTime(milliseconds: (sent.milliseconds + received.milliseconds) / 2)
            self.init(authority: authority, ahead: middle - (date + .milliseconds(500)))
        }

        fileprivate var size: Duration { ahead < .zero ? .zero - ahead : ahead }
    }

    package static func findings(of readings: [Reading]) -> [DoctorFinding] {
        guard !readings.isEmpty else {
            return [DoctorFinding(.clock, .skipped, "this machine", "no authorization server sent its time")]
        }
        let isConfirmed = readings.contains { $0.size <= tolerance }
        return readings.map { finding(of: $0, isConfirmed: isConfirmed) }
    }

    /// - Parameter isConfirmed: Another authorization server has the time of this machine.
    private static func finding(of reading: Reading, isConfirmed: Bool) -> DoctorFinding {
        let name = "\(reading.authority)"
        guard reading.size > tolerance else {
            return DoctorFinding(.clock, .ok, name, "its clock and this machine's agree within 5 s")
        }
        let seconds = "\(reading.size.wholeMilliseconds / 1000) s"
        let direction = reading.ahead > .zero ? "ahead of" : "behind"
        let text = "this machine's clock is \(seconds) \(direction) the authorization server's"
        guard !isConfirmed else {
            let remedy = "Another authorization server agrees with this machine. Tell the operator of this one."
            return DoctorFinding(.clock, .warning, name, text, remedy: remedy)
        }
        return DoctorFinding(
            .clock,
            reading.size >= limit ? .error : .warning,
            name,
            text,
            remedy: "Synchronize this machine's clock over the network.",
            command: "timedatectl set-ntp true"
        )
    }
}

/// Findings about the local certificate authority, and about who trusts it.
package enum LocalAuthorityRule {
    /// A root that ends sooner has a successor already, while the gateway runs.
    private static let soon: Duration = .seconds(14 * 86_400)

    /// - Parameters:
    ///   - trust: nil where the authority cannot be read.
    ///   - isIntercepting: Whether a listener answers in place of a host.
    package static func finding(of trust: AuthorityTrust?, isIntercepting: Bool, at now: UnixTime) -> DoctorFinding? {
        func finding(
            _ level: DoctorFinding.Level,
            _ text: String,
            _ remedy: String? = nil,
            _ command: String? = nil
        ) -> DoctorFinding {
            DoctorFinding(.tls, level, "local CA", text, remedy: remedy, command: command)
        }
        guard isIntercepting else { return nil }
        guard let trust else {
            return finding(.error, "its certificates cannot be read", "Run this as the gateway's user.")
        }
        guard let last = trust.roots.map(\.endsAt).max() else {
            return finding(.ok, "there is none yet; it is made when the gateway starts")
        }
        let day = last.rfc3339.prefix(10)
        guard last > now else {
            return finding(
                .error,
                "its certificates expired on \(day)",
                "Start the gateway: it makes new ones.",
                "authgateway run"
            )
        }
        if last < now + soon {
            return finding(
                .warning,
                "its certificates expire on \(day)",
                "Start the gateway: it makes new ones.",
                "authgateway run"
            )
        }
        if trust.isInstalledInPart {
            let text = "this machine trusts some of its certificates; others are newer"
            return finding(.warning, text, "Install the new ones.", "sudo authgateway ca install")
        }
        guard !trust.isTrustedBySystem else { return finding(.ok, "trusted by this machine until \(day)") }
        let remedy = "Programs trust it when they are started with authgateway exec, or after authgateway ca install."
        return finding(.ok, "this machine does not trust it", remedy)
    }
}
