import GatewayHTTP
import GatewayTokens

/// Something that is wrong or soon will be: for the page, the worst first. Holds no secret.
///
/// ``needsPerson`` decides for the page and for `status` alike.
struct Attention: Hashable, Sendable {
    enum Severity: Int, Comparable, Sendable {
        /// Requests fail until it is done.
        case failing
        /// Requests are served, and will fail if it is not done.
        case soon

        static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    }

    var severity: Severity
    /// The credential, or what else it is about.
    var name: String
    /// Whether somebody has to act. If not, the gateway tries again by itself.
    var needsPerson = true
    /// `campus: a login is needed`.
    var title: String
    var text: String
    /// RFC 3339.
    var since: String?
    var failedRequests: Int?
    /// RFC 3339.
    var nextTryAt: String?
    /// The next request causes a call, but not before this, RFC 3339.
    var notBefore: String?
    /// Nothing is tried before somebody acts.
    var waits = false
    /// What to type.
    var command: String?
    /// The credential that a browser can log in for.
    var login: String?
}

/// The items, and the sentence for each kind.
extension Attention {
    /// All that there is to tell.
    static func items(
        readiness: Readiness,
        tokens: [TokenStatus],
        expirations: [Expiration]
    ) -> [Attention] {
        let needy = tokens.filter(\.needsAttention)
        let named = Set(needy.map(\.credential))
        let ending = expirations.filter { $0.isSoon && !($0.kind != .secret && named.contains($0.of)) }
        // Said better by the items about credentials and ends.
        let said = needy.map { "\($0.credential): " } + ending.map { "\($0.of): its " }
        let others = readiness.reasons.filter { reason in !said.contains { reason.hasPrefix($0) } }
        let items =
            others.map { Attention(reason: $0, isServing: readiness.isReady) }
            + TokenStatus.firstOfEachCredential(needy).map { Attention($0, $1) }
            + tokens.compactMap { named.contains($0.credential) ? nil : Attention(scopesOf: $0) }
            + ending.map { Attention($0) }
        // Stable: within a severity the order above.
        return items.filter { $0.severity == .failing } + items.filter { $0.severity == .soon }
    }

    private init(_ token: TokenStatus, _ others: Int) {
        self.init(
            severity: token.isServed ? .soon : .failing,
            name: token.credential,
            needsPerson: token.needsPerson || token.failing?.needsPerson == true,
            title: "\(token.credential): \(token.trouble)\(TokenStatus.othersText(others))",
            text: [
                token.failing?.reason ?? token.lastError,
                token.authorityError.map { "The authorization server said: \($0.text)." }, token.failing?.remedy,
            ].compactMap(\.self).joined(separator: " "),
            command: token.failing?.command ?? token.action
        )
        since = token.failing?.since
        failedRequests = token.failing?.failedRequests
        nextTryAt = token.failing?.nextTryAt
        notBefore = token.failing?.notBefore
        // A static credential that is rejected is sent all the same.
        let isSent = token.isStatic == true && token.state == .rejected
        waits = token.needsPerson && nextTryAt == nil && !isSent
        if token.canLogIn, !token.isServed { login = token.credential }
    }

    /// nil where upstreams miss no scope.
    private init?(scopesOf token: TokenStatus) {
        guard let text = token.missingScopeText else { return nil }
        self.init(
            severity: .soon,
            name: token.credential,
            title: "\(token.credential): its token lacks a scope",
            text: text,
            command: token.action
        )
    }

    private init(_ expiration: Expiration) {
        let remaining = expiration.remainingSeconds
        let when = remaining > 0 ? "expires in \(ConfigUnits.remaining(remaining))" : "has expired"
        // `Replace it, then run: authgateway reload`.
        let action = expiration.action
        let command = action.firstRange(of: "authgateway ").map { String(action[$0.lowerBound...]) }
        self.init(
            severity: remaining > 0 ? .soon : .failing,
            name: expiration.of,
            title: "\(expiration.of): the \(expiration.kind.rawValue) \(when)",
            text: command == action ? "" : action,
            command: command
        )
    }

    /// `the audit log cannot be written: disk full`, or several sentences.
    private init(reason: String, isServing: Bool) {
        let gaps = [". ", ": "].compactMap { reason.firstRange(of: $0) }
        let gap = gaps.min { $0.lowerBound < $1.lowerBound }
        let title = gap.map { String(reason[..<$0.lowerBound]) } ?? reason
        self.init(
            severity: isServing ? .soon : .failing,
            name: title,
            title: title.prefix(1).uppercased() + title.dropFirst(),
            text: gap.map { String(reason[$0.upperBound...]) } ?? ""
        )
    }
}

extension TokenStatus {
    /// What is wrong, in a few words.
    fileprivate var trouble: String {
        switch state {
        case .loginRequired: "a login is needed"
        case .rotationUncertain: "its login may no longer be valid"
        case .locked: "locked by an operator"
        case .failed: "its configuration does not work"
        case .expired: isRenewable ? "the token has expired and is not renewed" : "the token has expired"
        case .rejected: isStatic == true ? "the upstream rejects the secret" : "the upstream rejects the token"
        case .empty, .acquiring: "no token could be obtained"
        case .valid, .renewing: failing == nil ? "needs a person" : "the token is not renewed"
        }
    }
}

extension ConfigUnits {
    /// `12 days`, `1 h 2 min`, `4 min 10 s`, `12 s`.
    package static func remaining(_ seconds: Int) -> String {
        if seconds >= 48 * 3600 { return "\(seconds / 86_400) days" }
        let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60)
        if hours > 0 { return "\(hours) h \(minutes) min" }
        return minutes > 0 ? "\(minutes) min \(rest) s" : "\(rest) s"
    }
}
