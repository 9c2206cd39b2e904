import GatewayHTTP
import GatewayTokens

/// What to do when an authorization server does not accept the times or the `jti` of an assertion: its clock, which stands in the
/// `Date` field of the refusal (RFC 9110 §6.6.1), takes the place of ours, and the assertion is signed anew.
struct AssertionRepair {
    /// How often within one attempt.
    static let limit = 3
    /// Clocks that differ by more make a refusal that does not say why one about the times; it is repaired once.
    private static let tolerance: Duration = .seconds(5)
    /// No assertion is signed further ahead. A false authorization server would otherwise get one that is valid for years.
    static let maximumAhead: Duration = .seconds(86_400)

    private let statuses: Set<Int>
    /// nil where the authorization server has no names for errors.
    private let code: String?
    private let comparesClocks: Bool

    /// Box always says what is wrong with an assertion.
    static let box = AssertionRepair(statuses: [400], code: "invalid_grant", comparesClocks: false)
    /// An assertion that a token is given for (RFC 7521 §4.1.1).
    static let grant = AssertionRepair(statuses: [400], code: "invalid_grant", comparesClocks: true)
    /// One by which a client proves who it is (RFC 7521 §4.2.1).
    static let client = AssertionRepair(statuses: [400, 401], code: "invalid_client", comparesClocks: true)
    /// One for a server that keeps to no standard.
    static let statement = AssertionRepair(statuses: [400, 401, 403], code: nil, comparesClocks: true)

    private static let claims: Set<Substring> = ["exp", "jti", "iat", "nbf"]

    /// What to do about the answer to an assertion; nil when it complains about something else, or not at all.
    ///
    /// - Parameters:
    ///   - authority: Who answered, as a sentence begins.
    ///   - sign: Makes the request anew in an attempt whose time is that of the authorization server.
    func answer(
        to reply: TokenReply,
        in attempt: GrantAttempt,
        from authority: String,
        sign: (GrantAttempt) -> GrantStep
    ) -> GrantAnswer? {
        guard let complaint = complaint(in: reply, to: attempt) else { return nil }
        guard attempt.answers <= Self.limit,
            let now = complaint.date ?? (complaint.isAboutTime ? nil : attempt.now.wall),
            now - attempt.now.wall <= Self.maximumAhead
        else { return .failure(Self.failure(after: complaint, reply, from: authority, in: attempt)) }
        var attempt = attempt
        attempt.now = Moment(monotonic: attempt.now.monotonic, wall: now)
        switch sign(attempt) {
        case .request(let request): return .next(request)
        case .impossible(let failure): return .failure(failure)
        case .run, .token: return nil
        }
    }

    /// A complaint about the claims that signing again can change.
    private struct Complaint {
        let code: String?
        /// What the authorization server's clock said; nil when it did not say.
        let date: UnixTime?
        let isAboutTime: Bool
    }

    private func complaint(in reply: TokenReply, to attempt: GrantAttempt) -> Complaint? {
        guard statuses.contains(reply.status) else { return nil }
        let answer = reply.document
        let error = answer?["error"]?.string
        guard code == nil || error == code else { return nil }
        let date = reply.field("Date").flatMap { UnixTime(httpDate: $0) }
        let description = answer?["error_description"]?.string ?? ""
        let words = Set(description.lowercased().split { !$0.isLetter && !$0.isNumber && $0 != "_" })
        let named = words.intersection(Self.claims)
        if !named.isEmpty { return Complaint(code: code, date: date, isAboutTime: named != ["jti"]) }
        guard comparesClocks, attempt.answers == 1, let date,
            max(attempt.now.wall - date, date - attempt.now.wall) > Self.tolerance
        else { return nil }
        return Complaint(code: code, date: date, isAboutTime: true)
    }

    /// Clocks are set without touching the configuration, so this is tried again later.
    private static func failure(
        after complaint: Complaint,
        _ reply: TokenReply,
        from authority: String,
        in attempt: GrantAttempt
    ) -> TokenFailure {
        let isRepeated = attempt.answers > 1 ? ", although it was signed again" : ""
        var detail = "\(authority) does not accept the assertion's times or its jti\(isRepeated)."
        if let date = complaint.date {
            let seconds = (attempt.now.wall - date).components.seconds
            if abs(seconds) > 1 {
                let relation = seconds > 0 ? "ahead of" : "behind"
                detail +=
                    " This machine's clock is \(abs(seconds)) s \(relation) the authorization server's: set it (NTP)."
            }
        } else if complaint.isAboutTime {
            detail = "\(authority) does not accept the assertion's times: is this machine's clock right (NTP)?"
        }
        return TokenFailure(
            .transient(retryAfter: nil),
            problem: GatewayProblem(
                .tokenTemporarilyUnavailable,
                detail,
                cause: GatewayProblem.Cause(code: complaint.code, httpStatus: reply.status)
            )
        )
    }
}
