import GatewayHTTP
package import GatewayTokens

/// An endpoint of an authorization server whose logins are captured, on a route that leads to it. The gateway answers there.
package struct CapturePoint: Hashable, Sendable {
    package let credential: CapturedCredential
    package let kind: CapturedRequest.Endpoint
    /// As seen from behind the upstream's base path.
    package let endpoint: AuthorityEndpoint

    package init(credential: CapturedCredential, kind: CapturedRequest.Endpoint, endpoint: AuthorityEndpoint) {
        self.credential = credential
        self.kind = kind
        self.endpoint = endpoint
    }

    /// How long a client waits for an answer: for a call to the authorization server, and for the token store before and after it.
    static let patience: Duration = .seconds(30)

    static let timedOut = GatewayProblem(
        .tokenEndpointTimeout,
        "The login was not answered within \(ConfigUnits.text(patience)).",
        retryAfter: .seconds(1)
    )

    private static let typeField = Array("content-type".utf8)
    private static let codingField = Array("content-encoding".utf8)
    private static let dpopField = Array("dpop".utf8)

    /// Why the request is refused, whatever its body says.
    static func refusal(ofHead head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> CaptureRefusal? {
        guard head.usualMethod(bytes) == .post, !head.wantsUpgrade else { return .head("is not a POST") }
        guard head.query.isEmpty else { return .head("has a query") }
        var types: [String] = []
        for index in head.section.fields.indices {
            let field = head.section.fields[index]
            if bytes.equalsDashed(field.name, typeField) {
                types.append(bytes.string(field.value).lowercased())
            } else if bytes.equalsDashed(field.name, codingField) {
                return .head("has a Content-Encoding")
            } else if bytes.equalsDashed(field.name, dpopField) {
                // A token that is bound to the client's key is of no use to the gateway (RFC 9449 section 5).
                return .head("has a DPoP proof, and tokens that are bound to a key cannot be captured")
            }
        }
        guard types.count == 1,
            types[0].prefix(while: { $0 != ";" && $0 != " " }) == "application/x-www-form-urlencoded"
        else { return .head("is not a form (application/x-www-form-urlencoded)") }
        guard !head.present.contains(.secondAuthorization) else { return .head("has more than one Authorization") }
        if case .length(let length) = head.framing, length > CapturedRequest.maximumBody { return .unreadable }
        return nil
    }
}

/// Where phantoms may stand in a request: in one `Authorization: Bearer`, on a route of their credential.
///
/// A phantom that a server gets is worth nothing there. It is kept from all of them, since a request that would carry one elsewhere
/// was meant to carry a token.
enum PhantomRule {
    /// Why the request is refused; nil where it passes.
    ///
    /// - Parameter credential: That of the route, if it is captured.
    static func refusal(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        client: String?,
        to credential: CapturedCredential?,
        asking captures: (any CaptureControl)?
    ) -> GatewayProblem? {
        var presented: [UInt8]?
        if let credential {
            guard let token = token(in: head, bytes), let captures, captures.admits(token, of: client, to: credential)
            else { return unknown }
            presented = token
        }
        return isElsewhere(in: head, bytes, than: presented) ? misplaced : nil
    }

    /// nil unless it is all that one `Authorization` has, behind `Bearer`.
    private static func token(in head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> [UInt8]? {
        guard !head.present.contains(.secondAuthorization), let field = head.first(.authorization) else { return nil }
        let (value, scheme) = (field.value, "Bearer ".utf8.count)
        guard value.count > scheme,
            bytes.equalsLowercased(value.lowerBound..<value.lowerBound + scheme, "bearer ")
        else { return nil }
        let token = bytes.array(value.lowerBound + scheme..<value.upperBound)
        return Phantom.isAccess(token) ? token : nil
    }

    /// - Parameter presented: The phantom in `Authorization`; nil for none.
    private static func isElsewhere(
        in head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        than presented: [UInt8]?
    ) -> Bool {
        for mark in Phantom.marks {
            if bytes.containsLowercased(head.path, mark) || bytes.containsLowercased(head.query, mark) { return true }
            for index in head.section.fields.indices {
                let field = head.section.fields[index]
                if presented != nil, case .authorization = field.kind { continue }
                if bytes.containsLowercased(field.value, mark) { return true }
            }
        }
        return false
    }

    private static let unknown = GatewayProblem(
        .clientAuthRequired,
        "The route needs Authorization: Bearer with the access token of a login that this client made through the gateway"
            + " (capture).",
        cause: GatewayProblem.Cause(code: "invalid_token")
    )
    private static let misplaced = GatewayProblem(
        .routeForbidden,
        "A phantom token may stand in Authorization: Bearer only, on a route of its credential."
    )
}
