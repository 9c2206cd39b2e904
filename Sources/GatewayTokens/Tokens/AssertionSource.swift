package import GatewayHTTP

/// Where a statement about the gateway is, which others sign and replace before it expires (RFC 7521 section 4.2): the token
/// of a workload identity.
package enum AssertionSource: Hashable, Sendable {
    /// The absolute path of a file, such as the token of a Kubernetes service account.
    case file(String)
    /// A service that is asked again for each token request.
    case service(AssertionService)

    /// The source as messages name it.
    package var place: String {
        switch self {
        case .file(let path): path
        case .service(let service): "\(service.url)"
        }
    }

    /// The assertion that a file holds. One line break at the end belongs to the file.
    package func assertion(in content: [UInt8]) throws(MissingAssertion) -> Secret {
        var content = content
        if content.last == UInt8(ascii: "\n") { content.removeLast() }
        if content.last == UInt8(ascii: "\r") { content.removeLast() }
        guard let token = Self.token(content) else {
            throw missing("it does not contain exactly one token in visible ASCII")
        }
        return token
    }

    /// The assertion in the answer of a service.
    package func assertion(in reply: TokenReply) throws(MissingAssertion) -> Secret {
        guard reply.status == 200 else {
            var advice = ""
            if case .service(let service) = self, [401, 403].contains(reply.status) { advice = "; \(service.advice)" }
            throw missing("it responded with status \(reply.status)\(advice)")
        }
        guard let text = reply.document?["value"]?.string, let token = Self.token(Array(text.utf8)) else {
            throw missing("its response has no token in \"value\"")
        }
        return token
    }

    /// - Parameter reason: Follows the place. It must not repeat what the place holds.
    package func missing(_ reason: String) -> MissingAssertion { MissingAssertion(place: place, reason: reason) }

    private static func token(_ bytes: [UInt8]) -> Secret? {
        guard !bytes.isEmpty, bytes.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
        return Secret(String(decoding: bytes, as: UTF8.self))
    }

    package func addInputs(to identity: inout GrantIdentity, as name: String) {
        switch self {
        case .file(let path): identity.add("\(name).file", path)
        case .service(let service):
            identity.add("\(name).\(service.key).audience", service.audience)
            // Another holder on the same machine may not be served the tokens of this one.
            identity.add("\(name).\(service.key).token", secret: service.token)
        }
    }
}

/// Why an assertion is unavailable.
package struct MissingAssertion: Error, Hashable, Sendable {
    package let place: String
    package let reason: String
}

/// A service that issues an assertion in exchange for a bearer token. Its answer is JSON with the assertion in `value`.
package struct AssertionService: Hashable, Sendable {
    /// The key of the configuration that names it. Stored tokens are found by it.
    fileprivate let key: String
    package let url: AuthorityURL
    fileprivate let audience: String
    fileprivate let token: Secret
    /// What a refusal may mean.
    fileprivate let advice: String

    /// - Parameters:
    ///   - base: Where it is asked; may have a query of its own.
    ///   - audience: Whom the assertion is meant for.
    package init(
        key: String,
        base: String,
        audience: String,
        token: Secret,
        advice: String
    ) throws(AuthorityURL.Refusal) {
        let separator = base.contains("?") ? "&" : "?"
        let parameter = FormEncoding.encode([TokenRequest.Parameter("audience", audience)])
        url = try AuthorityURL(base + separator + String(decoding: parameter, as: UTF8.self))
        self.key = key
        self.audience = audience
        self.token = token
        self.advice = advice
    }

    package var request: TokenRequest {
        let accept = Injection.Field(name: "Accept", value: Secret("application/json"))
        let fields = [accept] + Injection.authorization(scheme: "Bearer", token).fields
        return TokenRequest(method: .get, url: url, fields: fields)
    }
}
