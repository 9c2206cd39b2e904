package import GatewayHTTP
package import GatewayTokens

/// Whether an upstream's response means "this token is not valid" (RFC 6750 section 3.1).
///
/// `error="invalid_token"` means it, and so does a response without any error code, which most upstreams send. Any other code
/// (`insufficient_scope`, `invalid_request`) is about the request, so a new token would not help.
///
/// A gRPC response without messages whose status is UNAUTHENTICATED counts as a 401.
package enum TokenRejection {
    /// The scopes that the response says the token lacks; nil if it names none.
    static func missingScopes(_ head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> [String]? {
        guard head.status == 403 || head.status == 401 else { return nil }
        return AuthChallenge.missingScopes(in: head, bytes)
    }

    package static func isRejection(_ head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        var namesOtherError = false
        for field in head.fields where field.kind == .wwwAuthenticate {
            switch AuthChallenge.errorCode(in: bytes.array(field.value)) {
            case nil: break
            case "invalid_token": return true
            default: namesOtherError = true
            }
        }
        return !namesOtherError
    }

    /// The status with which a response rejects a static credential; nil if it does not reject it.
    package static func refusal(_ head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> Int? {
        let status = effectiveStatus(of: head)
        guard status == 401 || status == 403, isRejection(head, bytes) else { return nil }
        return status
    }

    private static func effectiveStatus(of head: borrowing ResponseHead) -> Int {
        head.grpcStatus == GRPCStatus.unauthenticated.rawValue ? 401 : head.status
    }

    /// What a response says about the credential that the request was sent with.
    ///
    /// - Parameters:
    ///   - retryOn: The statuses that can mean a rejection on this route.
    ///   - sign: What ``RejectionRule`` has found in the response.
    ///   - method: The request's method. GET and HEAD can be repeated even if the upstream has acted on them.
    ///   - credential: nil if nothing was injected.
    package static func judge(
        _ head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>,
        retryOn: [Int],
        sign: RejectionRule.Sign? = nil,
        method: String,
        credential: Credential?,
        of source: (any CredentialSource)?
    ) -> ResponseFacts.Rejection {
        let status = effectiveStatus(of: head)
        guard let credential, let source else { return .none }
        if let sign {
            let isSafe = method == "GET" || method == "HEAD"
            return sign == .status || isSafe || !source.isRenewable
                ? .token(isRenewable: source.isRenewable) : .tokenNotSentAgain
        }
        guard status >= 400, retryOn.contains(status) else { return .none }
        if let answering = source.answering {
            let challenges = AuthChallenge.all(in: head, bytes)
            switch answering.answer(challenges, to: credential.generation) {
            case .unanswered: return .challenge(isAnswered: false)
            case .answered: return .challenge(isAnswered: true)
            case .rejected: return .token(isRenewable: source.isRenewable)
            }
        }
        return isRejection(head, bytes) ? .token(isRenewable: source.isRenewable) : .none
    }
}

extension ResponseFacts.Rejection {
    /// How a rejection is recorded.
    enum Entry: Hashable {
        /// The record decides whether it counts.
        case first(isRenewable: Bool)
        /// The token is the one that the request was replayed with, so another renewal would not help.
        case ofReplay
    }

    /// How it is recorded; nil if it is not.
    ///
    /// - Parameter wasReplayed: The request was sent again after an earlier rejection.
    func entry(wasReplayed: Bool) -> Entry? {
        switch self {
        case .none, .challenge, .otherSignature, .wrongDate, .tokenWithoutRenewal, .tokenOverBudget: nil
        case .token(isRenewable: false): .first(isRenewable: false)
        case .token(isRenewable: true), .tokenNotSentAgain: wasReplayed ? .ofReplay : .first(isRenewable: true)
        }
    }

    /// The rejection after the record has decided whether it counts.
    func counted(by verdict: RejectionRecord.Verdict, at now: MonotonicTime) -> Self {
        switch verdict {
        case .counts: self
        case .withoutRenewal: .tokenWithoutRenewal
        case .overBudget(let until): .tokenOverBudget(fillsAfter: until - now)
        }
    }
}

/// How the rule is applied to a response.
extension RejectionRule {
    /// Whether the rule needs the body of the response, and the body can be inspected: it is text, finite and not compressed.
    func readsBody(of head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        guard body != nil, looksAt(head.status) else { return false }
        return BodyInspection.canInspect(head, bytes)
    }

    private func looksAt(_ status: Int) -> Bool {
        status >= 200 && (statuses.isEmpty || statuses.contains(status))
    }

    fileprivate static func value(
        of name: StaticString,
        in head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>
    ) -> String? {
        for field in head.fields where bytes.equalsLowercased(field.name, name) { return bytes.string(field.value) }
        return nil
    }

    /// The sign in a response that the session has ended; nil if there is none.
    ///
    /// - Parameters:
    ///   - upstream: The origin and the path of the request.
    ///   - content: The beginning of the body, if ``readsBody(of:_:)`` asked for it.
    package func sign(
        in head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>,
        from upstream: (origin: Origin, path: [UInt8]),
        content: [UInt8]?
    ) -> Sign? {
        guard looksAt(head.status) else { return nil }
        // An application also redirects after it has accepted a form, so a redirect does not prove that it refused the request.
        if location == nil, body == nil { return head.status < 400 ? .content : .status }
        if let location, (300..<400).contains(head.status),
            let reference = Self.value(of: "location", in: head, bytes),
            Self.leads(Array(reference.utf8), to: location, from: upstream)
        {
            return .content
        }
        return content.flatMap { body?.firstMatch(in: $0, mostSteps: Self.mostSteps) } == nil ? nil : .content
    }

    private static func leads(
        _ text: [UInt8],
        to location: Location,
        from upstream: (origin: Origin, path: [UInt8])
    ) -> Bool {
        // Only the path is compared. The query is cut off, because some servers do not encode spaces and quotes in it.
        let whole = Array(text.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") })
        guard let target = URIReference(whole)?.resolved(against: upstream.origin, upstream.path),
            target.origin == location.origin ?? upstream.origin
        else { return false }
        let path = URIReference.withoutDotSegments(PercentEncoding.decodeUnreserved(target.path))
        let prefix = PercentEncoding.decodeUnreserved(Array(location.path.utf8))
        guard path.starts(with: prefix) else { return false }
        // Parameters of the segment follow a semicolon: servlet containers put the session there.
        let next = path.dropFirst(prefix.count).first
        return next == nil || next == UInt8(ascii: "/") || next == UInt8(ascii: ";")
    }
}

/// The beginning of a body that is held back until there is enough of it to judge the response.
struct BodyInspection: Sendable {
    private(set) var content: [UInt8] = []
    private var waiting = 0
    private let waitingLimit: Int
    private var isOver = false

    /// - Parameter waitingLimit: How many bytes may be held back, with framing. A body in tiny chunks consists mostly of framing,
    ///   and would otherwise need many times ``RejectionRule/bodyLimit``.
    init(waitingLimit: Int) { self.waitingLimit = waitingLimit }

    /// Types of bodies that may never end, or whose parts must be forwarded at once.
    private static let streams: Set = ["text/event-stream", "application/x-ndjson", "application/stream+json"]

    /// Whether the response has a body that is text, finite and not compressed.
    static func canInspect(_ head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        if case .none = head.framing { return false }
        let coding = RejectionRule.value(of: "content-encoding", in: head, bytes)?.lowercased() ?? "identity"
        let type =
            RejectionRule.value(of: "content-type", in: head, bytes)?.lowercased().prefix { $0 != ";" && $0 != " " }
            ?? ""
        guard coding == "identity", !streams.contains(String(type)) else { return false }
        return type.isEmpty || type.hasPrefix("text/") || type.hasSuffix("json") || type.hasSuffix("xml")
            || type.hasPrefix("application/x-amz-json")
    }

    /// Whether the rest of the body is not needed.
    var isEnough: Bool {
        isOver || content.count >= RejectionRule.bodyLimit || waiting >= waitingLimit
    }

    /// - Parameter part: A part of the body, without framing.
    mutating func receive(content part: some Collection<UInt8>) {
        content += part.prefix(RejectionRule.bodyLimit - content.count)
    }

    /// - Parameter count: How many bytes have arrived, with framing.
    mutating func receive(bytes count: Int) { waiting += count }

    /// The body has ended.
    mutating func end() { isOver = true }
}
