import GatewayCore

/// Tokens as people read them.
enum TokenText {
    static func table(of tokens: [TokenStatus], _ style: TextStyle) -> String {
        var table = TextTable("CREDENTIAL", "STRATEGY", "STATE", "GENERATION", "EXPIRES IN", "WHAT TO DO")
        for token in tokens {
            let cells = [
                token.credential,
                token.strategy,
                token.state.rawValue,
                token.generation == 0 ? "-" : String(token.generation),
                token.remainingSeconds.map { $0 > 0 ? ConfigUnits.countdown($0) : "expired" } ?? "-",
                token.action ?? "",
            ]
            table.add(cells, color: color(of: token), column: 2)
        }
        return table.text(style) + errors(of: tokens)
    }

    /// Nil for what is neither good nor bad: a token that no request has asked for.
    private static func color(of token: TokenStatus) -> TextStyle.Color? {
        switch token.state {
        case .valid: token.needsPerson ? .red : .green
        case .acquiring, .renewing: .yellow
        case .empty: token.needsPerson ? .red : nil
        case .expired, .rejected, .failed, .loginRequired, .rotationUncertain, .locked: .red
        }
    }

    /// What went wrong last, below the table: too long for a column.
    private static func errors(of tokens: [TokenStatus]) -> String {
        let lines = tokens.compactMap { token in
            token.lastError.map { "\(LogText.clean(token.credential)): \(LogText.clean($0))\n" }
        }
        return lines.isEmpty ? "" : "\n" + lines.joined()
    }

    /// One fact a line.
    static func list(of token: TokenStatus, routes: [String]) -> String {
        let remaining = token.remainingSeconds.map { $0 > 0 ? " (in \(ConfigUnits.countdown($0)))" : " (over)" } ?? ""
        let login = token.renewalRemainingSeconds.map {
            $0 > 0 ? " (in \(ConfigUnits.countdown($0)), unless it is renewed)" : " (over)"
        }
        let facts: [(String, String?)] = [
            ("credential", token.credential),
            ("strategy", token.strategy),
            ("subject", token.subject),
            ("routes", routes.isEmpty ? nil : routes.joined(separator: ", ")),
            ("state", token.state.rawValue),
            ("generation", token.generation == 0 ? nil : String(token.generation)),
            ("obtained", token.obtainedAt),
            ("expires", token.expiresAt.map { $0 + remaining }),
            ("login ends", token.renewalExpiresAt.map { $0 + (login ?? "") }),
            ("renews", token.isRenewable ? token.renewsAt : "never by itself"),
            ("last error", token.lastError),
            ("what to do", token.action),
        ]
        return facts.compactMap { name, value in
            value.map { "\(name): ".padding(to: 14) + LogText.clean($0) + "\n" }
        }.joined()
    }
}
