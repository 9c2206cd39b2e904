import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens

/// A request that waits for an operator's approval, as operators see it.
package struct HeldRequestStatus: Hashable, Sendable, Codable {
    /// The ID of the request.
    package var id: String
    /// nil for one without a name.
    package var client: String?
    package var route: String
    package var method: String
    /// Where it would go, without what the gateway adds.
    package var url: String
    /// SHA-256 of the body, in hexadecimal digits.
    package var bodySha256: String
    package var bodyBytes: Int
    /// The tools of MCP that it calls, and other methods; nil where that is not looked at.
    package var calls: [String]?
    /// Header fields that say what the request does, and how a server reads the body; nil without them.
    package var fields: [String]?
    /// The beginning of the body. Control characters other than line breaks are escaped; quotation marks and markup are not.
    package var text: String
    /// How many bytes of the body ``text`` stands for.
    package var shownBytes: Int
    package var ageSeconds: Int
    package var expiresInSeconds: Int

    /// The most bytes that a line of ``text`` can have: each byte of the body may be escaped.
    package static let longestLine = 12 * HeldRequest.maximumShown

    init(_ request: HeldRequest, at now: MonotonicTime) {
        id = request.id
        client = request.subject.client
        route = request.subject.route
        method = request.subject.method
        url = request.subject.url
        bodySha256 = Hexadecimal.text(of: request.subject.digest)
        bodyBytes = request.bodyBytes
        calls = request.calls.isEmpty ? nil : request.calls
        fields = request.fields.isEmpty ? nil : request.fields
        text = request.text
        shownBytes = request.shownBytes
        ageSeconds = max(0, Int((now - request.heldAt).wholeMilliseconds / 1000))
        expiresInSeconds = max(0, Int((request.deadline - now).wholeMilliseconds / 1000))
    }
}

/// Who decides about a request that is held; the body has nothing.
package struct ApprovalOrder: AdminInput {
    /// The authenticated user; nil for the admin token, which belongs to no user.
    private(set) var user: String?

    package var body: [UInt8]? { nil }

    package init() {}
    package init(body: [UInt8]?) {}

    package mutating func note(person name: String?) { user = name }
}

extension TokenEvent {
    /// What became of a request that waits for an approval.
    init(_ name: Name, _ request: HeldRequest, by user: String? = nil, at now: UnixTime) {
        let subject = request.subject
        self.init(
            at: now,
            name: name,
            trigger: user == nil ? nil : .operator,
            demand: CredentialRequest(route: subject.route, client: subject.client, requestID: request.id)
        )
        detail["method"] = subject.method
        detail["path"] = request.place
        detail["body_sha256"] = Hexadecimal.text(of: subject.digest)
        detail["user"] = user
        if !request.calls.isEmpty { detail["calls"] = request.calls.joined(separator: ", ").singleLine(limit: 512) }
    }

    init(_ event: HeldRequest.Event, of request: HeldRequest, at now: UnixTime) {
        switch event {
        case .held: self.init(.requestHeld, request, at: now)
        case .released(let user): self.init(.requestReleased, request, by: user, at: now)
        case .expired: self.init(.requestExpired, request, at: now)
        case .dropped(let reason):
            self.init(.requestDropped, request, at: now)
            detail["reason"] = reason
        }
    }
}
