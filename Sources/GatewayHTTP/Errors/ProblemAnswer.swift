/// An answer that the gateway gives by itself: what it says in every version of HTTP.
///
/// The sender adds `Date` and the fields of the connection.
package struct ProblemAnswer: Hashable, Sendable {
    /// Names from the configuration that an answer may have.
    package struct Names: Hashable, Sendable {
        package var route: String?
        package var credential: String?
        /// The kind of that credential.
        package var strategy: String?
        /// The authority of the route's upstream.
        package var upstream: String?

        package init(
            route: String? = nil,
            credential: String? = nil,
            strategy: String? = nil,
            upstream: String? = nil
        ) {
            self.route = route
            self.credential = credential
            self.strategy = strategy
            self.upstream = upstream
        }
    }

    /// What the client asked for.
    package struct Form: Hashable, Sendable {
        /// ``AcceptRule/prefersText(_:_:)``.
        package var prefersText: Bool
        /// HEAD is answered without content.
        package var omitsBody: Bool
        /// To CONNECT: of its answer, clients show the reason phrase at most.
        package var explainsInReasonPhrase: Bool
        /// The request is a call of gRPC (``GRPCStatus/isCall(_:_:)``): what happened is a status of gRPC.
        package var isGRPC: Bool
        /// In the place of the status of the problem: an engine passes few on. nil for that.
        package var status: Int?

        package init(
            prefersText: Bool = false,
            omitsBody: Bool = false,
            explainsInReasonPhrase: Bool = false,
            isGRPC: Bool = false,
            status: Int? = nil
        ) {
            self.status = status
            self.prefersText = prefersText
            self.omitsBody = omitsBody
            self.explainsInReasonPhrase = explainsInReasonPhrase
            self.isGRPC = isGRPC
        }
    }

    package struct Field: Hashable, Sendable {
        package let name: String
        package let value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    package let status: Int
    /// In the place of that of the status (HTTP/1 alone); nil for that.
    package let reasonPhrase: String?
    package let fields: [Field]
    package let body: [UInt8]

    /// - Parameters:
    ///   - disclosesNames: The client may learn names from the configuration (``NameDisclosure``).
    ///   - requestIDHeader: The field for the id; nil sends none.
    ///   - sendsProxyStatus: The configuration wants `Proxy-Status`.
    package init(
        _ problem: GatewayProblem,
        requestID: String,
        requestIDHeader: String? = nil,
        names: Names = Names(),
        disclosesNames: Bool,
        sendsProxyStatus: Bool,
        form: Form = Form()
    ) {
        let names = disclosesNames ? names : Names()
        let problem = disclosesNames ? problem : problem.withoutNames
        let body =
            form.isGRPC ? "" : Self.document(problem, requestID: requestID, names, in: form)
        var fields = form.isGRPC ? GRPCStatus.fields(of: problem) : Self.fields(of: body, isText: form.prefersText)
        if let requestIDHeader { fields.append(Field(name: requestIDHeader, value: requestID)) }
        if sendsProxyStatus {
            let upstream = problem.kind.concernsUpstream ? names.upstream : nil
            let member = ProxyStatus.member(nextHop: problem.nextHop ?? upstream)
            fields.append(Field(name: "Proxy-Status", value: "\(member); error=\(problem.proxyStatusError)"))
        }
        if !form.isGRPC, let field = problem.requiredField { fields.append(field) }
        if let retryAfter = problem.retryAfter {
            fields.append(Field(name: "Retry-After", value: String(retryAfter.secondsRoundedUp)))
        }
        status = form.isGRPC ? 200 : form.status ?? problem.kind.status
        reasonPhrase = form.explainsInReasonPhrase ? Self.phrase(problem.detail) : nil
        self.fields = fields
        self.body = form.omitsBody ? [] : Array(body.utf8)
    }

    private static func fields(of body: String, isText: Bool) -> [Field] {
        [
            Field(name: "Content-Type", value: isText ? "text/plain; charset=utf-8" : ProblemDocument.mediaType),
            Field(name: "Content-Length", value: String(body.utf8.count)),
            Field(name: "Cache-Control", value: "no-store"),
        ]
    }

    /// An answer that is no problem, without content.
    package init(status: Int, fields: [Field]) {
        self.status = status
        self.fields = fields
        reasonPhrase = nil
        body = []
    }

    /// The same with more fields.
    package func with(_ fields: [Field]) -> ProblemAnswer {
        ProblemAnswer(status: status, reasonPhrase: reasonPhrase, fields: self.fields + fields, body: body)
    }

    private init(status: Int, reasonPhrase: String?, fields: [Field], body: [UInt8]) {
        self.status = status
        self.reasonPhrase = reasonPhrase
        self.fields = fields
        self.body = body
    }

    static let maximumPhrase = 200

    /// Without what is not allowed in a status line (RFC 9112 section 4).
    private static func phrase(_ text: String) -> String {
        String(decoding: text.utf8.prefix(maximumPhrase).map { (0x20..<0x7F).contains($0) ? $0 : 0x3F }, as: UTF8.self)
    }

    private static func document(
        _ problem: GatewayProblem,
        requestID: String,
        _ names: Names,
        in form: Form
    ) -> String {
        guard !form.prefersText else { return ProblemDocument.text(problem, requestID: requestID) }
        return ProblemDocument.json(
            problem,
            status: form.status,
            requestID: requestID,
            route: names.route,
            credential: names.credential,
            strategy: names.strategy
        )
    }
}

extension GatewayProblem {
    /// What an answer with this status must have (RFC 9110 section 15.5).
    fileprivate var requiredField: ProblemAnswer.Field? {
        switch kind {
        case .clientAuthRequired:
            // RFC 6750 §3.1: no error code for a request that brought no token.
            let error = cause?.code.map { ", error=\"\($0)\"" } ?? ""
            return .init(name: "WWW-Authenticate", value: "Bearer realm=\"\(ProxyStatus.gateway)\"\(error)")
        case .engineAuthRequired:
            return .init(name: "WWW-Authenticate", value: "Engine realm=\"\(ProxyStatus.gateway)\"")
        case .proxyAuthRequired:
            return .init(name: "Proxy-Authenticate", value: "Basic realm=\"\(ProxyStatus.gateway)\"")
        case .methodRefused: return .init(name: "Allow", value: "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
        default: return nil
        }
    }
}
