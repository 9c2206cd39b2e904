import GatewayApp
import GatewayHTTP
import GatewayTokens

/// Tokens as people read them.
enum TokenText {
    static func table(of tokens: [TokenStatus], _ style: TextStyle) -> String {
        let (fixed, others) = (tokens.filter { $0.isStatic == true }, tokens.filter { $0.isStatic != true })
        let tables = [
            others.isEmpty && !fixed.isEmpty ? nil : renewable(others, style),
            fixed.isEmpty ? nil : self.fixed(fixed, style),
        ]
        return tables.compactMap(\.self).joined(separator: "\n") + errors(of: tokens) + skews(of: tokens)
    }

    private static func renewable(_ tokens: [TokenStatus], _ style: TextStyle) -> String {
        var table = TextTable("CREDENTIAL", "STRATEGY", "STATE", "GENERATION", "EXPIRES IN", "WHAT TO DO")
        for token in tokens {
            let cells = [
                token.credential,
                token.strategy,
                state(of: token),
                token.generation == 0 ? "-" : String(token.generation),
                token.remainingSeconds.map { $0 > 0 ? ConfigUnits.countdown($0) : "expired" } ?? "-",
                token.action ?? token.failing?.command ?? "",
            ]
            table.add(cells, color: color(of: token), column: 2)
        }
        return table.text(style)
    }

    /// The table of static credentials. They do not expire, so it shows what upstreams answered.
    private static func fixed(_ tokens: [TokenStatus], _ style: TextStyle) -> String {
        var table = TextTable("STATIC CREDENTIAL", "STRATEGY", "STATE", "LAST ACCEPTED", "LAST REJECTED", "WHAT TO DO")
        for token in tokens {
            let cells = [
                token.credential, token.strategy, state(of: token), token.lastAcceptedAt ?? "-",
                token.lastRejectedAt ?? "-", action(on: token),
            ]
            table.add(cells, color: color(of: token), column: 2)
        }
        return table.text(style)
    }

    private static func action(on token: TokenStatus) -> String {
        if let action = token.action { return action }
        if token.state == .rejected { return "replace the secret and restart the gateway" }
        return token.isOnlyRejected ? "check the secret" : ""
    }

    /// A live token may hide that its renewal fails.
    private static func state(of token: TokenStatus) -> String {
        if token.isOnlyRejected, token.state == .valid { return "valid, only rejected so far" }
        return token.failing == nil || token.needsPerson ? token.state.rawValue : "\(token.state.rawValue), failing"
    }

    /// Nil for what is neither good nor bad: a token that no request has asked for.
    private static func color(of token: TokenStatus) -> TextStyle.Color? {
        switch token.state {
        case .valid, .renewing:
            token.failing != nil && !token.needsPerson || token.missingScopes != nil ? .yellow : usualColor(of: token)
        default: usualColor(of: token)
        }
    }

    private static func usualColor(of token: TokenStatus) -> TextStyle.Color? {
        switch token.state {
        case .valid: token.needsPerson ? .red : .green
        case .acquiring, .renewing: .yellow
        case .empty: token.needsAttention ? .red : nil
        case .expired, .rejected, .failed, .loginRequired, .rotationUncertain, .locked: .red
        }
    }

    /// What went wrong last, below the table: too long for a column.
    private static func errors(of tokens: [TokenStatus]) -> String {
        let parts = tokens.compactMap { token -> String? in
            if token.failing != nil { return failing(token) }
            let locked = token.lockedAt.map { " Locked at \(LogText.clean($0))." } ?? ""
            return (token.lastError ?? token.missingScopeText).map {
                "\(LogText.clean(token.credential)): \(LogText.clean($0))\(locked)\n"
            }
        }
        return parts.isEmpty ? "" : "\n" + parts.joined()
    }

    /// One line for each clock that differs by so much that it matters.
    private static func skews(of tokens: [TokenStatus]) -> String {
        let lines = tokens.compactMap { token in
            token.clockSkewSeconds.flatMap(ClockSkew.advice).map { LogText.clean("\(token.credential): \($0)") + "\n" }
        }
        return lines.isEmpty ? "" : "\n" + lines.joined()
    }

    /// One fact a line.
    static func list(of token: TokenStatus, routes: [String]) -> String {
        let remaining = token.remainingSeconds.map { $0 > 0 ? " (in \(ConfigUnits.countdown($0)))" : " (over)" } ?? ""
        let lacksRefreshToken = token.lacksRefreshToken == true
        let condition = lacksRefreshToken ? "" : ", unless it is renewed"
        let login = token.renewalRemainingSeconds.map {
            $0 > 0 ? " (in \(ConfigUnits.countdown($0))\(condition))" : " (over)"
        }
        let renews = lacksRefreshToken ? "never, because the login brought no refresh token" : token.renewsAt
        let facts: [(String, String?)] = [
            ("credential", token.credential),
            ("strategy", token.strategy),
            ("subject", token.subject),
            ("routes", routes.isEmpty ? nil : routes.joined(separator: ", ")),
            ("state", state(of: token)),
            ("generation", token.generation == 0 ? nil : String(token.generation)),
            ("locked", token.lockedAt),
            ("obtained", token.obtainedAt),
            ("expires", token.expiresAt.map { $0 + remaining }),
            ("login expires", token.renewalExpiresAt.map { $0 + (login ?? "") }),
            ("renews", token.isStatic == true ? nil : token.isRenewable ? renews : "not automatically"),
            ("secret from", token.secretOrigin),
            ("accepted", token.isStatic == true ? token.lastAcceptedAt ?? "not yet" : nil),
            ("rejected", token.lastRejectedAt),
            ("renewal budget", token.emptyBudgetText),
            ("clock", token.clockSkewSeconds.flatMap(ClockSkew.advice)),
            ("added scopes", token.addedScopes?.joined(separator: " ")),
            ("missing scopes", token.missingScopes?.joined(separator: " ")),
        ]
        let trouble = troubles(of: token) ?? [("last error", token.lastError), ("what to do", token.action)]
        return lines(facts + trouble)
    }

    // MARK: What fails

    /// Several lines below the table.
    private static func failing(_ token: TokenStatus) -> String {
        LogText.clean(token.credential) + ":\n" + lines(troubles(of: token) ?? [], indent: "  ")
    }

    /// nil when the last call brought a token.
    private static func troubles(of token: TokenStatus) -> [(String, String?)]? {
        guard let failing = token.failing else { return nil }
        return [
            ("failing since", failing.since),
            ("reason", failing.reason),
            ("server said", token.authorityError?.text),
            ("next try", nextTry(failing)),
            ("what to do", failing.remedy),
            ("command", failing.command),
            ("requests failed", failing.failedRequests.flatMap { $0 > 0 ? String($0) : nil }),
        ]
    }

    private static func nextTry(_ failing: TokenStatus.Failing) -> String {
        failing.nextTryAt ?? failing.notBefore.map { "with the next request, not before \($0)" } ?? "not automatically"
    }

    /// One fact a line; those without a value are left out.
    private static func lines(_ facts: [(String, String?)], indent: String = "") -> String {
        let known = facts.compactMap { name, value in value.map { (name, $0) } }
        let width = known.map(\.0.count).max() ?? 0
        return known.map { indent + "\($0): ".padding(to: width + 2) + LogText.clean($1) + "\n" }.joined()
    }
}
