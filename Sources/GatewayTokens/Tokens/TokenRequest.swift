package import GatewayHTTP

/// One request to an authority, described as a value; a ``TokenEndpoint`` sends it.
package struct TokenRequest: Hashable, Sendable {
    package enum Method: String, CaseIterable, Sendable {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
        case patch = "PATCH"
        case delete = "DELETE"
    }

    package enum Body: Hashable, Sendable {
        case none
        /// `application/x-www-form-urlencoded`, strictly encoded, in this order.
        case form([Parameter])
        /// As it is, under this `Content-Type`.
        case content(type: String, Secret)
    }

    package struct Parameter: Hashable, Sendable {
        package let name: String
        package let value: Secret

        package init(_ name: String, _ value: Secret) {
            self.name = name
            self.value = value
        }

        package init(_ name: String, _ value: String) { self.init(name, Secret(value)) }
    }

    /// A parameter of the form whose value others issue; it is fetched when the request is sent.
    package struct IssuedParameter: Hashable, Sendable {
        package let name: String
        package let source: AssertionSource

        package init(_ name: String, from source: AssertionSource) {
            self.name = name
            self.source = source
        }
    }

    package var method: Method
    package var url: AuthorityURL
    package var fields: [Injection.Field]
    package var body: Body
    /// A certificate of our own; nil shows none.
    package var tls: ClientTLS?
    /// They follow the parameters of the form.
    package var issuedParameters: [IssuedParameter] = []

    package init(method: Method = .post, url: AuthorityURL, fields: [Injection.Field] = [], body: Body = .none) {
        self.method = method
        self.url = url
        self.fields = fields
        self.body = body
    }
}

extension TokenRequest {
    /// The request with the values of all its ``issuedParameters``, in their order.
    package func filled(with values: [Secret]) -> TokenRequest {
        guard case .form(let form) = body else { return self }
        var request = self
        request.body = .form(form + zip(issuedParameters, values).map { Parameter($0.name, $1) })
        request.issuedParameters = []
        return request
    }
}

/// What came back, whatever its status.
package struct TokenReply: Hashable, Sendable {
    /// 0 for what a program printed.
    package let status: Int
    /// In order of arrival; names as received.
    package let fields: [Field]
    /// At most 1 MiB; a longer answer is a ``TokenTransportFailure``.
    package let body: [UInt8]
    /// The authority's clock minus ours; nil when it was not measured. See ``ClockSkew``.
    package var clockSkewSeconds: Int?

    package struct Field: Hashable, Sendable {
        package let name: String
        package let value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    package init(status: Int, fields: [Field] = [], body: [UInt8] = []) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// What a program printed.
    package init(output: [UInt8]) { self.init(status: 0, body: output) }

    /// nil for what a program printed.
    package var httpStatus: Int? { status == 0 ? nil : status }

    /// The body as far as it can be read without doubt: JSON, or a form where the type says so; nil for anything else.
    ///
    /// A refresh token or a code is spent by the time that an answer comes, so an oddity in a member that nobody uses must not cost
    /// the tokens in the others. See ``JSONValue/init(_:forgiving:uniqueNames:)`` for what a member that is used must not hold.
    package var document: JSONValue? {
        JSONValue(body, forgiving: true) ?? (isForm ? JSONValue(form: trimmedBody) : nil)
    }

    private var isForm: Bool {
        let type = field("Content-Type")?.prefix { $0 != ";" }.filter { $0 != " " }.lowercased()
        return type == "application/x-www-form-urlencoded"
    }

    private var trimmedBody: [UInt8] {
        let isBlank: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
        return Array(body.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
    }

    package func field(_ name: String) -> String? {
        let wanted = name.lowercased()
        return fields.first { $0.name.lowercased() == wanted }?.value
    }
}

/// Why no answer came.
package struct TokenTransportFailure: Error, Hashable, Sendable {
    package enum Reason: String, Sendable {
        case nameNotResolved = "name_not_resolved"
        case connectionRefused = "connection_refused"
        case connectTimeout = "connect_timeout"
        case tlsFailed = "tls_failed"
        case responseTimeout = "response_timeout"
        case connectionLost = "connection_lost"
        case answerTooLarge = "answer_too_large"
        case invalidAnswer = "invalid_answer"
        /// A field or the URL cannot be written as HTTP; repeating it does not help.
        case unsendable = "unsendable_request"
        /// An assertion that is part of the request is unavailable now; it may be there again later.
        case missingAssertion = "missing_assertion"

        /// The request was not sent, because of something on this machine.
        package var isLocal: Bool { self == .unsendable || self == .missingAssertion }
    }

    package let reason: Reason
    /// The request may have been acted upon although no answer came: a refresh token may be spent.
    package let mayHaveBeenProcessed: Bool
    /// Which assertion is unavailable, and why; nil for any other reason.
    package let missingAssertion: MissingAssertion?
    /// With which the server refused the TLS connection.
    package let alert: TLSAlert?
    /// The content coding that cannot be undone, where ``Reason/invalidAnswer`` means that.
    package var unreadableCoding: String?

    package init(_ reason: Reason, mayHaveBeenProcessed: Bool, alert: TLSAlert? = nil) {
        self.reason = reason
        self.mayHaveBeenProcessed = mayHaveBeenProcessed
        self.alert = alert
        missingAssertion = nil
    }

    package init(_ missing: MissingAssertion) {
        reason = .missingAssertion
        mayHaveBeenProcessed = false
        missingAssertion = missing
        alert = nil
    }
}
