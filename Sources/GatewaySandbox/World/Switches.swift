import GatewayCore

/// How one origin misbehaves. Everything is off until a control call turns it on.
struct Switches: Sendable {
    // Token endpoint.
    /// Seconds that a new token really lives and is said to live.
    var tokenLifetime: Int?
    var tokenDelay = 0
    var tokenStatus: Int?
    var tokenError: String?
    var tokenErrorDescription: String?
    var tokenBody: String?
    var tokenContentType: String?
    var tokenRetryAfter: String?
    /// How many token calls the failure above lasts; nil until it is switched off.
    var tokenNext: Int?
    /// Members of a good answer that are replaced, whatever their type should be.
    var tokenSet: [String: JSONValue] = [:]
    var tokenOmit: [String] = []
    /// Token calls whose connection closes without an answer, before or after the grant took effect.
    var dropBeforeCommit = 0
    var dropAfterCommit = 0
    /// false keeps the refresh token and leaves it out of the answer.
    var rotate = true

    // API.
    /// Requests that are answered with 401 although their credential is good.
    var rejectNext = 0
    var apiStatus: Int?
    var apiRetryAfter: String?
    var apiDelay = 0
    /// Requests to the upstream whose connection closes without an answer; their bodies are not read.
    var dropNext = 0
    /// How many requests `apiStatus` lasts; nil until it is switched off.
    var apiNext: Int?

    /// What becomes of one token call.
    struct TokenCall: Sendable {
        var lifetime: Int?
        var delay: Int
        var failure: Failure?
        var drop: Drop?
        var members: [String: JSONValue]
        var omitted: [String]
        var rotatesRefreshToken: Bool

        enum Drop: Sendable { case beforeCommit, afterCommit }

        struct Failure: Sendable {
            var status: Int
            var error: String
            var description: String
            var body: String?
            var contentType: String
            var retryAfter: String?
        }
    }

    /// Takes the switches for one call and counts down those that last for a number of calls.
    mutating func takeTokenCall() -> TokenCall {
        var call = TokenCall(
            lifetime: tokenLifetime,
            delay: tokenDelay,
            members: tokenSet,
            omitted: tokenOmit,
            rotatesRefreshToken: rotate
        )
        if dropBeforeCommit > 0 {
            dropBeforeCommit -= 1
            call.drop = .beforeCommit
        } else if dropAfterCommit > 0 {
            dropAfterCommit -= 1
            call.drop = .afterCommit
        }
        guard tokenStatus != nil || tokenBody != nil, Self.take(&tokenNext) else { return call }
        call.failure = TokenCall.Failure(
            status: tokenStatus ?? 200,
            error: tokenError ?? "temporarily_unavailable",
            description: tokenErrorDescription ?? "The sandbox was told to fail",
            body: tokenBody,
            contentType: tokenContentType ?? "application/json",
            retryAfter: tokenRetryAfter
        )
        return call
    }

    mutating func takeDrop() -> Bool {
        guard dropNext > 0 else { return false }
        dropNext -= 1
        return true
    }

    enum APIFailure: Sendable {
        case rejected
        case status(Int, retryAfter: String?)
    }

    /// Takes the failure that the next API request meets.
    mutating func takeAPIFailure() -> APIFailure? {
        if rejectNext > 0 {
            rejectNext -= 1
            return .rejected
        }
        guard let apiStatus, Self.take(&apiNext) else { return nil }
        return .status(apiStatus, retryAfter: apiRetryAfter)
    }

    private static func take(_ remaining: inout Int?) -> Bool {
        guard let count = remaining else { return true }
        guard count > 0 else { return false }
        remaining = count - 1
        return true
    }
}
