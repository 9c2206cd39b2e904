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
