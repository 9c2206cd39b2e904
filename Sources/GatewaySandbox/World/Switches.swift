import GatewayHTTP
import GatewayTokens

/// How one origin misbehaves. Everything is off until a control call turns it on.
struct Switches: Sendable {
    // Token endpoint.
    /// Seconds that a new token really lives and is said to live.
    var tokenLifetime: Int?
    private var tokenDelay = 0
    private var tokenStatus: Int?
    private var tokenError: String?
    private var tokenErrorDescription: String?
    private var tokenBody: String?
    private var tokenContentType: String?
    private var tokenRetryAfter: String?
    /// How many token calls the failure above lasts; nil until it is switched off.
    private var tokenNext: Int?
    /// Members of a good answer that are replaced, whatever their type should be.
    var tokenSet: [String: JSONValue] = [:]
    private var tokenOmit: [String] = []
    /// Token calls whose connection closes without an answer, before or after the grant took effect.
    private var dropBeforeCommit = 0
    private var dropAfterCommit = 0
    /// false keeps the refresh token and leaves it out of the answer.
    var rotate = true

    // API.
    /// Requests that are answered with 401 although their credential is good.
    private var rejectNext = 0
    private var apiStatus: Int?
    private var apiRetryAfter: String?
    var apiDelay = 0
    /// Requests to the upstream whose connection closes without an answer; their bodies are not read.
    private var dropNext = 0
    /// How many requests `apiStatus` lasts; nil until it is switched off.
    private var apiNext: Int?

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

extension Switches {
    /// Sets what `members` name and leaves the rest as it is; `null` switches off.
    mutating func set(_ members: [String: JSONValue]) throws(UnusableInput) {
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            try set(name, to: value)
        }
    }

    private mutating func set(_ name: String, to value: JSONValue) throws(UnusableInput) {
        let setting = Setting(name: name, value: value)
        switch name {
        case "token_lifetime": tokenLifetime = try setting.optionalInteger(-86_400...1_000_000_000)
        case "token_delay_ms": tokenDelay = try setting.integer(0...60_000)
        case "token_status": tokenStatus = try setting.optionalInteger(200...599)
        case "token_error": tokenError = try setting.optionalText()
        case "token_error_description": tokenErrorDescription = try setting.optionalText()
        case "token_body": tokenBody = try setting.optionalText()
        case "token_content_type": tokenContentType = try setting.optionalText()
        case "token_retry_after": tokenRetryAfter = try setting.optionalText()
        case "token_next": tokenNext = try setting.optionalInteger(0...1_000_000)
        case "token_set": tokenSet = try setting.members()
        case "token_omit": tokenOmit = try setting.texts()
        case "drop_before_commit": dropBeforeCommit = try setting.integer(0...1_000_000)
        case "drop_after_commit": dropAfterCommit = try setting.integer(0...1_000_000)
        case "rotate": rotate = try setting.bool(default: true)
        case "reject_next": rejectNext = try setting.integer(0...1_000_000)
        case "api_status": apiStatus = try setting.optionalInteger(200...599)
        case "api_retry_after": apiRetryAfter = try setting.optionalText()
        case "api_delay_ms": apiDelay = try setting.integer(0...60_000)
        case "drop_next": dropNext = try setting.integer(0...1_000_000)
        case "api_next": apiNext = try setting.optionalInteger(0...1_000_000)
        default:
            throw UnusableInput("no switch is called \"\(name)\"; GET /_sandbox/state lists them")
        }
    }

    var json: JSON {
        [
            "token_lifetime": Self.json(tokenLifetime),
            "token_delay_ms": .integer(tokenDelay),
            "token_status": Self.json(tokenStatus),
            "token_error": .optional(tokenError),
            "token_error_description": .optional(tokenErrorDescription),
            "token_body": .optional(tokenBody),
            "token_content_type": .optional(tokenContentType),
            "token_retry_after": .optional(tokenRetryAfter),
            "token_next": Self.json(tokenNext),
            "token_set": JSON(.object(tokenSet)),
            "token_omit": .array(tokenOmit.map { .string($0) }),
            "drop_before_commit": .integer(dropBeforeCommit),
            "drop_after_commit": .integer(dropAfterCommit),
            "rotate": .bool(rotate),
            "reject_next": .integer(rejectNext),
            "api_status": Self.json(apiStatus),
            "api_retry_after": .optional(apiRetryAfter),
            "api_delay_ms": .integer(apiDelay),
            "drop_next": .integer(dropNext),
            "api_next": Self.json(apiNext),
        ]
    }

    private static func json(_ number: Int?) -> JSON { number.map { .integer($0) } ?? .null }
}

/// One member of a control call, read as the type its switch needs.
struct Setting {
    let name: String
    let value: JSONValue

    func optionalInteger(_ range: ClosedRange<Int>) throws(UnusableInput) -> Int? {
        if case .null = value { return nil }
        guard case .number(let number) = value, let integer = number.int, range.contains(integer)
        else {
            throw wrong("a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return integer
    }

    func integer(_ range: ClosedRange<Int>) throws(UnusableInput) -> Int { try optionalInteger(range) ?? 0 }

    /// A number is taken as its text, since `Retry-After` is one more often than not.
    func optionalText() throws(UnusableInput) -> String? {
        switch value {
        case .null: return nil
        case .string(let text): return text
        case .number: return JSON(value).text
        default: throw wrong("a text")
        }
    }

    func bool(default fallback: Bool) throws(UnusableInput) -> Bool {
        switch value {
        case .null: return fallback
        case .bool(let value): return value
        default: throw wrong("true or false")
        }
    }

    func members() throws(UnusableInput) -> [String: JSONValue] {
        switch value {
        case .null: return [:]
        case .object(let members): return members
        default: throw wrong("an object")
        }
    }

    func texts() throws(UnusableInput) -> [String] {
        if case .null = value { return [] }
        guard case .array(let values) = value else { throw wrong("a list of strings") }
        let texts = values.compactMap(\.string)
        guard texts.count == values.count else { throw wrong("a list of strings") }
        return texts
    }

    private func wrong(_ expected: String) -> UnusableInput {
        UnusableInput("\(name): expected \(expected) or null")
    }
}
