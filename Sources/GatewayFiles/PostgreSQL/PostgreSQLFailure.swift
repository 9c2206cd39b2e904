/// Why a statement has no result. Shows neither a password nor the values of a statement.
package struct PostgreSQLFailure: Error, Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The statement was not sent, so nothing has changed.
        case notSent
        /// It was sent and there was no answer: it may have been carried out.
        case unknown
        /// The server refused it; its SQLSTATE (PostgreSQL documentation, appendix A).
        case refused(String)
    }

    package let kind: Kind
    /// Ends a sentence that begins with "because" or a colon.
    package let reason: String

    package init(_ kind: Kind, _ reason: String) {
        self.kind = kind
        self.reason = reason
    }

    package var state: String? { if case .refused(let state) = kind { state } else { nil } }

    /// The server takes no writes.
    package var isReadOnly: Bool { state == "25006" }

    /// Another session has locked a row, which says nothing of other rows.
    package var isOfHeldRow: Bool { state == "55P03" }

    /// The server goes away or does not take writes any more, so another connection may find the right one.
    var endsConnection: Bool {
        switch state {
        case "25006", "57P01", "57P02", "57P03", "57P05": true
        case .some(let state): state.hasPrefix("08")
        case nil: true
        }
    }

    /// A message for operators, with the remedy.
    ///
    /// - Parameter name: What the database is called in the message.
    package func words(for name: String) -> String {
        switch state {
        case "25006":
            "\(name) accepts no writes at the moment (it is a standby, or default_transaction_read_only is on); name the "
                + "primary, or all hosts with target_session_attrs=read-write"
        case "42P01", "3F000": "\(name) has no tables of this gateway; run `authgateway store migrate`"
        case "42501":
            "the role of \(name) lacks a privilege (\(reason)); grant what docs/fleet.md names, or run "
                + "`authgateway store migrate` as the owner of the database"
        case "55P03":
            "another session has locked rows of \(name) (\(reason)); pg_locks shows which one; end its transaction"
        default: "\(name) cannot be used: \(reason)"
        }
    }
}

/// Text of libpq or of the server: one line, bounded, printable.
enum ServerText {
    static let limit = 300

    static func clean(_ text: String, hiding secret: String?) -> String {
        var text = text
        if let secret, !secret.isEmpty {
            text = text.split(separator: secret, omittingEmptySubsequences: false).joined(separator: "‹hidden›")
        }
        let words = text.unicodeScalars.split {
            $0.value <= 0x20 || (0x7F...0x9F).contains($0.value) || $0.value == 0x2028
        }
        var line = ""
        for word in words {
            if !line.isEmpty { line += " " }
            line.unicodeScalars.append(contentsOf: word)
            if line.unicodeScalars.count > limit { break }
        }
        return String(String.UnicodeScalarView(line.unicodeScalars.prefix(limit)))
    }
}
