import GatewayConfiguration
import GatewayEvents
import GatewayHTTP

/// The keys of `audit`, and how they are read.
extension AuditPlan {
    /// The keys of `audit`: what is recorded of tokens and requests, and for how long.
    static let keys = Keys(
        AuditPlan(path: "", usage: .minute, retention: .seconds(90 * 86_400), onFailure: .block)
    ) {
        $0("path", \.path, .file, default: "audit.sqlite in state_directory", example: "./state/audit.sqlite")
            .means("The database of the audit log.")
        $0("store", \.store, .choice, example: "postgres")
            .means(
                "Where an event must be committed before it counts as recorded. sqlite: in the local "
                    + "database; postgres: there and in the database of tokens.store: postgres."
            )
        $0("ship", \.ships, .flag, example: "false")
            .means(
                "Whether the log is copied to the database of tokens.store: postgres. The local database always has it."
            )
        $0("usage", \.usage, .choice, example: "request")
            .means(
                "How uses of a credential are recorded: as counts per minute (minute), also one by one "
                    + "(request), or not at all (none)."
            )
        $0("retention", \.retention, .duration(.seconds(3600) ... .seconds(3650 * 86_400)), example: "365d")
            .means("How long rows are kept.")
        $0("on_failure", \.onFailure, .choice, example: "degrade")
            .means(
                "What happens when a token event cannot be recorded. block: the token is not used; degrade: it is used."
            )
        $0("anchor", read: readAnchor, shown: { $0.anchor?.summary }, example: "{syslog: true}")
            .covers { $0.anchor?.covered ?? [] }
            .means(
                "Where to send the head of the log, so that a rollback of the log to an earlier state is detected."
            )
        $0("on_missing", \.onMissing, .choice, example: "recreate")
            .means(
                "What happens if the database is gone. refuse: nothing is recorded until it is restored; "
                    + "recreate: a new one is created, and its first event records the loss."
            )
        // Less would hold little more than the write-ahead log.
        $0("max_bytes", \.maximumBytes, .bytes((16 << 20)...(16 << 40)), example: "2GiB")
            .means(
                "Maximum size of the database with its write-ahead log. The last tenth is reserved for "
                    + "token and operator events: denials, failed requests and uses are no longer recorded then."
            )
    }

    @Sendable private static func readAnchor(_ fields: ConfigFields, _ plan: inout AuditPlan) {
        plan.anchor = AnchorPlan.decode(fields.fields("anchor"), audit: plan.path)
    }

    static func decode(_ fields: ConfigFields?, stateDirectory: String) -> AuditPlan {
        var plan = keys.defaults
        plan.path = "\(stateDirectory)/audit.sqlite"
        guard let fields else { return plan }
        keys.read(fields, into: &plan)
        fields.refuseUnknownKeys()
        return plan
    }

    /// What `audit` says of a database needs one in `tokens`.
    func checkShipping(to tokens: TokenPlan, _ fields: ConfigFields?) {
        guard let fields else { return }
        if store == .postgres, !ships {
            fields.error("ship", "must not be false with \"store: postgres\": remove one of the two")
        }
        guard tokens.store != .postgres else { return }
        if store == .postgres {
            fields.error("store", "\"postgres\" is for \"store: postgres\" of \"tokens\", whose database it uses")
        } else if fields.has("ship") {
            fields.error("ship", "is for \"store: postgres\" of \"tokens\"")
        }
    }
}

/// The keys of `audit.anchor`, and how they are read.
extension AnchorPlan {
    /// What `audit.anchor` says, before it is known whether it is one anchor.
    private struct Written {
        var command: [String]?
        var read: [String]?
        var timeout = Duration.seconds(5)
        var syslog: String?
        var file: String?
    }

    private static let kinds = ["command", "syslog", "file"]

    fileprivate var covered: [any CanonicalValue] {
        switch self {
        case .command(let program, let read): ["command", program, read]
        case .syslog(let tag): ["syslog", tag]
        case .file(let path): ["file", path]
        }
    }

    private static let keys = Keys(Written()) {
        $0("command", \.command, .command, example: "[/usr/local/bin/keep-head]")
            .means(
                "A program that reads one line with the head of the log from standard input and keeps it."
            )
        $0("read", \.read, .command, example: "[/usr/local/bin/kept-heads]")
            .means(
                "A program that prints the lines that command kept, or the last one. audit verify reads it, "
                    + "and so does the gateway at its start."
            )
        $0("timeout", \.timeout, .duration(.milliseconds(100) ... .seconds(15)), example: "10s")
            .means("Maximum time for one call of these programs.")
        $0("syslog", \.syslog, .syslog, example: "true")
            .means("Writes the head to the system log. true, or the tag to use.")
        $0("file", \.file, .file, example: "/mnt/elsewhere/audit.heads")
            .means(
                "A file that the head is appended to. Keep it on another machine, out of reach of anyone "
                    + "who can change the log."
            )
    }

    fileprivate static func decode(_ fields: ConfigFields?, audit path: String) -> AnchorPlan? {
        guard let fields else { return nil }
        defer { fields.refuseUnknownKeys() }
        // All are read, so that all are known.
        var written = keys.defaults
        keys.read(fields, into: &written)
        for key in ["read", "timeout"] where fields.has(key) && !fields.has("command") {
            fields.error(key, "is for an anchor with a \"command\"")
        }
        if let file = written.file, file == path || file == "\(path).head" {
            fields.error("file", "is a file of the audit log itself; an anchor is kept elsewhere")
            written.file = nil
        }
        let given = kinds.filter(fields.has)
        guard given.count == 1 else {
            if given.count > 1 || fields.unknownKeys.isEmpty {
                fields.error("an anchor has exactly one of \(kinds.joined(separator: ", "))")
            }
            return nil
        }
        if let command = written.command {
            return .command(
                TokenProgram(command: command, timeout: written.timeout),
                read: written.read.map { TokenProgram(command: $0, timeout: written.timeout) }
            )
        }
        return written.syslog.map { .syslog(tag: $0) } ?? written.file.map { .file(path: $0) }
    }
}

extension KeyKind where Value == String {
    /// What a program calls itself in the system log: one short word (RFC 5424 section 6.2.5 allows 48 characters).
    fileprivate static var syslog: Self {
        KeyKind { fields, key in
            guard let (scalar, _) = fields.scalar(key) else { return nil }
            if scalar.text == "true", !scalar.isQuoted { return "authgateway" }
            let isPlain = scalar.text.utf8.allSatisfy(\.isHostByte)
            guard isPlain, (1...48).contains(scalar.text.utf8.count), scalar.isQuoted || scalar.text != "false" else {
                fields.error(
                    key,
                    "expected true, or a tag of letters, digits, \"-\", \"_\" and \".\"; found \(scalar.shown)"
                )
                return nil
            }
            return scalar.text
        } text: {
            $0
        }
    }
}
