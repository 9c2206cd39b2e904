import GatewayCore

/// What to do when an authority does not accept the times or the `jti` of an assertion: its clock, which stands in the
/// `Date` field of the refusal (RFC 9110 §6.6.1), takes the place of ours, and the assertion is signed anew.
enum AssertionRepair {
    /// How often within one attempt.
    static let limit = 3

    private static let claims: Set<Substring> = ["exp", "jti", "iat", "nbf"]

    /// What the answer to an assertion means: a token, a failure, or the request to send instead.
    ///
    /// - Parameter sign: Makes the request anew as if it were that time.
    static func answer(
        _ reply: TokenReply,
        in attempt: inout GrantAttempt,
        as errors: OAuthErrors,
        sign: (GrantAttempt, UnixTime) throws(TokenFailure) -> TokenRequest
    ) -> GrantAnswer {
        guard let complaint = complaint(in: reply) else { return errors.answer(reply, in: &attempt) }
        guard attempt.answers <= limit,
            let now = complaint.date ?? (complaint.isAboutTime ? nil : attempt.now.wall)
        else { return .failure(failure(after: complaint, from: errors.authority, at: attempt.now)) }
        do throws(TokenFailure) {
            return .next(try sign(attempt, now))
        } catch {
            return .failure(error)
        }
    }

    /// A complaint about the claims that signing again can change.
    private struct Complaint {
        /// What the authority's clock said; nil when it did not say.
        let date: UnixTime?
        let isAboutTime: Bool
    }

    /// nil when `reply` complains about something else, or not at all.
    private static func complaint(in reply: TokenReply) -> Complaint? {
        guard reply.status == 400, let answer = JSONValue(reply.body), answer["error"]?.string == "invalid_grant",
            let description = answer["error_description"]?.string
        else { return nil }
        let words = Set(description.lowercased().split { !$0.isLetter && !$0.isNumber && $0 != "_" })
        let named = words.intersection(claims)
        guard !named.isEmpty else { return nil }
        return Complaint(date: reply.field("Date").flatMap { UnixTime(httpDate: $0) }, isAboutTime: named != ["jti"])
    }

    /// Clocks are set without touching the configuration, so this is tried again later.
    private static func failure(after complaint: Complaint, from authority: String, at now: Moment) -> TokenFailure {
        var detail = "\(authority) does not accept the assertion's times or its jti, although it was signed again."
        if let date = complaint.date {
            let seconds = (now.wall - date).components.seconds
            if abs(seconds) > 1 {
                let relation = seconds > 0 ? "ahead of" : "behind"
                detail += " This machine's clock is \(abs(seconds)) s \(relation) the authority's: set it (NTP)."
            }
        } else if complaint.isAboutTime {
            detail = "\(authority) does not accept the assertion's times: is this machine's clock right (NTP)?"
        }
        return TokenFailure(
            .transient(retryAfter: nil),
            problem: GatewayProblem(
                .tokenTemporarilyUnavailable,
                detail,
                cause: GatewayProblem.Cause(code: "invalid_grant", httpStatus: 400)
            )
        )
    }
}
