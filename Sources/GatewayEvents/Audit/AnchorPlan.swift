package import GatewayHTTP

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
