import GatewayHTTP
import GatewayTokens

/// Where phantoms may stand in a request: in one `Authorization: Bearer`, on a route of their credential.
///
/// A phantom is useless to a server, but a request with one in the wrong place was meant to carry a token, so it is refused.
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
        "A phantom token is only valid in Authorization: Bearer, on a route of its credential."
    )
}
