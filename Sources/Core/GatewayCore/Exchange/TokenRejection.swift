/// Whether an answer of the upstream means "this token is not valid" (RFC 6750 §3.1).
///
/// `error="invalid_token"` does, and so does an answer without any error code, which is what Box and most others send. Any
/// other code (`insufficient_scope`, `invalid_request`) is about the request: a new token would change nothing.
///
/// Of gRPC, the status UNAUTHENTICATED is what 401 is elsewhere, where the response has no messages.
package enum TokenRejection {
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

    /// The status with which a response refuses a credential that is always the same; nil where it does not.
    package static func refusal(_ head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> Int? {
        let status = effectiveStatus(of: head)
        guard status == 401 || status == 403, isRejection(head, bytes) else { return nil }
        return status
    }

    private static func effectiveStatus(of head: borrowing ResponseHead) -> Int {
        head.grpcStatus == GRPCStatus.unauthenticated.rawValue ? 401 : head.status
    }

    /// What a response says of the credential that its request went with.
    ///
    /// - Parameters:
    ///   - retryOn: The statuses that can mean a rejection on this route.
    ///   - sign: What ``RejectionRule`` found in it.
    ///   - isSafe: The method is GET or HEAD: the request can be repeated whatever an application did with it.
    ///   - credential: nil where nothing was injected.
    package static func judge(
        _ head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>,
        retryOn: [Int],
        sign: RejectionRule.Sign? = nil,
        isSafe: Bool = true,
        credential: Credential?,
        of source: (any CredentialSource)?
    ) -> ResponseFacts.Rejection {
        let status = effectiveStatus(of: head)
        guard let credential, let source else { return .none }
        if let sign {
            return sign == .status || isSafe || !source.isRenewable
                ? .token(isRenewable: source.isRenewable) : .tokenNotSentAgain
        }
        guard status >= 400, retryOn.contains(status) else { return .none }
        if let answering = source as? any ChallengeAnswering {
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

extension RejectionRule {
    /// Whether the body of a response has to be looked at, and can be: it is text, has an end, and is not compressed.
    package func readsBody(of head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        guard body != nil, looksAt(head.status) else { return false }
        if case .none = head.framing { return false }
        let coding = Self.value(of: "content-encoding", in: head, bytes)?.lowercased() ?? "identity"
        let type = Self.value(of: "content-type", in: head, bytes)?.lowercased().prefix { $0 != ";" && $0 != " " } ?? ""
        guard coding == "identity", !Self.streams.contains(String(type)) else { return false }
        return type.isEmpty || type.hasPrefix("text/") || type.hasSuffix("json") || type.hasSuffix("xml")
    }

    /// They have no end, or each part of them is wanted as it comes.
    private static let streams: Set = ["text/event-stream", "application/x-ndjson", "application/stream+json"]

    private func looksAt(_ status: Int) -> Bool {
        status >= 200 && (statuses.isEmpty || statuses.contains(status))
    }

    private static func value(
        of name: StaticString,
        in head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>
    ) -> String? {
        for field in head.fields where bytes.equalsLowercased(field.name, name) { return bytes.string(field.value) }
        return nil
    }

    /// What says in a response that the session is over; nil for nothing.
    ///
    /// - Parameters:
    ///   - upstream: What was asked, with the path up to its last slash.
    ///   - content: The beginning of the body, where ``readsBody(of:_:)`` wants it.
    package func sign(
        in head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>,
        from upstream: (origin: Origin, directory: [UInt8]),
        content: [UInt8]?
    ) -> Sign? {
        guard looksAt(head.status) else { return nil }
        if location == nil, body == nil { return .status }
        if let location, (300..<400).contains(head.status),
            let reference = Self.value(of: "location", in: head, bytes),
            Self.leads(Array(reference.utf8), to: location, from: upstream)
        {
            return .content
        }
        return content.flatMap { body?.firstMatch(in: $0) } == nil ? nil : .content
    }

    private static func leads(
        _ text: [UInt8],
        to location: Location,
        from upstream: (origin: Origin, directory: [UInt8])
    ) -> Bool {
        guard let reference = URIReference(text) else { return false }
        var (origin, path): (Origin?, [UInt8]) = (upstream.origin, reference.path)
        switch reference.form {
        case .absolute(let scheme, let authority):
            origin = Origin.Scheme(rawValue: scheme).flatMap { Origin(scheme: $0, authority: authority) }
        case .network(let authority): origin = Origin(scheme: upstream.origin.scheme, authority: authority)
        case .absolutePath: break
        case .relativePath: path = upstream.directory + path
        case .sameDocument: return false
        }
        guard origin == location.origin ?? upstream.origin else { return false }
        let whole = path.isEmpty ? [UInt8(ascii: "/")] : URIReference.withoutDotSegments(path)
        return URIReference.rest(of: whole, behind: Array(location.path.utf8)) != nil
    }
}
