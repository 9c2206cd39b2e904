package import GatewayHTTP

/// `audit`: where events are recorded, and for how long.
package struct AuditPlan: Hashable, Sendable {
    package enum Usage: String, CaseIterable, Sendable {
        case none
        case minute
        case request
    }

    package enum OnFailure: String, CaseIterable, Sendable {
        /// No new token is used that could not be recorded.
        case block
        case degrade
    }

    /// What happens when the database is gone, while the gateway runs or when it starts.
    package enum OnMissing: String, CaseIterable, Sendable {
        /// Nothing is recorded until a person has put it back.
        case refuse
        /// A new one is begun, whose first event records the loss.
        case recreate
    }

    /// What an event has to be committed in before it counts as recorded.
    package enum Store: String, CaseIterable, Sendable {
        /// The local log.
        case sqlite
        /// The local log and the database of `tokens.store: postgres`.
        case postgres
    }

    package var path: String
    package var store = Store.sqlite
    /// Whether the log is copied to the database of `tokens.store: postgres`, where there is one.
    package var ships = true
    package var usage: Usage
    package var retention: Duration
    package var onFailure: OnFailure
    /// nil: the head of the log is kept beside it only.
    package var anchor: AnchorPlan?
    package var onMissing = OnMissing.refuse
    /// The maximum size of the database with its write-ahead log; see ``AuditRoom``.
    package var maximumBytes = AuditRoom.defaultLimit

    package init(path: String, usage: Usage, retention: Duration, onFailure: OnFailure) {
        self.path = path
        self.usage = usage
        self.retention = retention
        self.onFailure = onFailure
    }
}

/// Where the head of the audit log is sent as well, where an attacker who can roll back the log cannot write.
package enum AnchorPlan: Hashable, Sendable {
    /// A program that reads one line, and one that prints what it has kept.
    case command(TokenProgram, read: TokenProgram?)
    /// The log of the system, under this tag.
    case syslog(tag: String)
    /// A file that lines are appended to.
    case file(path: String)

    /// For a message.
    package var name: String {
        switch self {
        case .command(let program, _): program.command.first ?? ""
        case .syslog: "the system log"
        case .file(let path): path
        }
    }

    /// Whether the gateway can compare the log with what was sent.
    package var isReadable: Bool {
        switch self {
        case .command(_, let read): read != nil
        case .syslog: false
        case .file: true
        }
    }

    /// As the configuration spells it.
    package var summary: String {
        switch self {
        case .command(let program, _): "command: \(program.command.joined(separator: " "))"
        case .syslog(let tag): "syslog: \(tag)"
        case .file(let path): "file: \(path)"
        }
    }
}
