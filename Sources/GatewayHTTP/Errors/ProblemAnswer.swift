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
        /// Whether it answers a CONNECT: clients show the reason phrase at most.
        package var explainsInReasonPhrase: Bool
        /// The request is a call of gRPC (``GRPCStatus/isCall(_:_:)``): what happened is a status of gRPC.
        package var isGRPC: Bool
        /// Replaces the status of the problem, because an engine passes few of them on; nil keeps it.
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
    /// Replaces the reason phrase of the status (HTTP/1 only); nil keeps it.
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
        var fields = form.isGRPC ? GRPCStatus.fields(of: problem) : Self.fields(of: body, problem, in: form)
        if let requestIDHeader { fields.append(Field(name: requestIDHeader, value: requestID)) }
        if sendsProxyStatus, problem.isFailure {
            let upstream = problem.kind.concernsUpstream ? names.upstream : nil
            let member = ProxyStatus.member(nextHop: problem.nextHop ?? upstream)
            fields.append(Field(name: "Proxy-Status", value: "\(member); error=\(problem.proxyStatusError)"))
        }
        if !form.isGRPC, let field = problem.requiredField { fields.append(field) }
        if let retryAfter = problem.retryAfter {
            fields.append(Field(name: "Retry-After", value: String(retryAfter.secondsRoundedUp)))
        }
        status = form.isGRPC ? 200 : form.status ?? problem.status
        reasonPhrase = form.explainsInReasonPhrase ? Self.phrase(problem.detail) : nil
        self.fields = fields
        self.body = form.omitsBody ? [] : Array(body.utf8)
    }

    private static func fields(of body: String, _ problem: GatewayProblem, in form: Form) -> [Field] {
        let type = form.prefersText ? "text/plain; charset=utf-8" : ProblemDocument.mediaType
        return [
            Field(name: "Content-Type", value: problem.rpc == nil && problem.oauth == nil ? type : "application/json"),
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

    /// This answer with additional header fields.
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

    /// The text without characters that are not allowed in a status line (RFC 9112 section 4).
    private static func phrase(_ text: String) -> String {
        String(decoding: text.utf8.prefix(maximumPhrase).map { (0x20..<0x7F).contains($0) ? $0 : 0x3F }, as: UTF8.self)
    }

    private static func document(
        _ problem: GatewayProblem,
        requestID: String,
        _ names: Names,
        in form: Form
    ) -> String {
        if let rpc = problem.rpc { return rpc.body }
        if let oauth = problem.oauth { return oauth.body.withValue(\.self) }
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
    /// Not the answer to a login that went well.
    fileprivate var isFailure: Bool { oauth.map { $0.failure != nil } ?? true }

    /// What an answer with this status must have (RFC 9110 section 15.5).
    fileprivate var requiredField: ProblemAnswer.Field? {
        // RFC 6749 section 5.2.
        if oauth?.status == 401 {
            return .init(name: "WWW-Authenticate", value: "Basic realm=\"\(ProxyStatus.gateway)\"")
        }
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

/// The body of an answer that the gateway gives by itself: `application/problem+json` (RFC 9457).
package enum ProblemDocument {
    package static let mediaType = "application/problem+json"

    /// For clients that would rather read a sentence: the same facts in lines.
    package static func text(_ problem: GatewayProblem, requestID: String) -> String {
        var lines = ["\(problem.title) (\(problem.kind.rawValue))", problem.detail]
        if let command = problem.command { lines.append("Run: \(command)") }
        lines.append("Request: \(requestID)")
        return lines.joined(separator: "\n") + "\n"
    }

    /// - Parameters:
    ///   - status: The status of the answer, where it is not that of the problem.
    ///   - route: The route's name, when one was found.
    ///   - credential: The name of the route's credential.
    ///   - strategy: The kind of that credential.
    package static func json(
        _ problem: GatewayProblem,
        status: Int? = nil,
        requestID: String,
        route: String? = nil,
        credential: String? = nil,
        strategy: String? = nil
    ) -> String {
        var members: [(name: String, value: String)] = [
            ("type", JSONString.quoted("urn:authgateway:problem:\(problem.kind.rawValue)")),
            ("title", JSONString.quoted(problem.title)),
            ("status", String(status ?? problem.kind.status)),
            ("detail", JSONString.quoted(problem.detail)),
            ("code", JSONString.quoted(problem.kind.rawValue)),
            ("recovery", JSONString.quoted(problem.recovery.rawValue)),
        ]
        if let command = problem.command { members.append(("command", JSONString.quoted(command))) }
        if let route { members.append(("route", JSONString.quoted(route))) }
        if let credential { members.append(("credential", JSONString.quoted(credential))) }
        if let strategy { members.append(("strategy", JSONString.quoted(strategy))) }
        if let cause = problem.cause { members.append(("cause", cause.json)) }
        if let retryAfter = problem.retryAfter { members.append(("retry_after", String(retryAfter.secondsRoundedUp))) }
        members.append(("request_id", JSONString.quoted(requestID)))
        return "{" + members.map { "\"\($0.name)\":\($0.value)" }.joined(separator: ",") + "}\n"
    }
}

extension GatewayProblem.Cause {
    fileprivate var json: String {
        var members: [String] = []
        if let code { members.append("\"error\":\(JSONString.quoted(code))") }
        if let httpStatus { members.append("\"http_status\":\(httpStatus)") }
        return "{" + members.joined(separator: ",") + "}"
    }
}

/// Our member of `Proxy-Status` (RFC 9209).
package enum ProxyStatus {
    /// The gateway's name here and in the realm of its challenges. Its name in `Via` begins with it.
    package static let gateway = "authgateway"

    /// - Parameter nextHop: A host, with its port where that is not the scheme's; nil where no hop was asked, or it is not known which one failed.
    package static func member(nextHop: String?) -> String {
        nextHop.map { "\(gateway); next-hop=\(item($0))" } ?? gateway
    }

    /// A token where the rules for one allow it, else a string (RFC 8941 §3.3): addresses begin with a digit or a bracket.
    ///
    /// Nothing in a host has to be escaped.
    private static func item(_ host: String) -> String {
        let startsToken = host.utf8.first.map { $0 | 0x20 }.map { (0x61...0x7A).contains($0) } ?? false
        return startsToken ? host : "\"\(host)\""
    }
}

/// Which form of a problem the client prefers (RFC 9110 section 12.5.1).
package enum AcceptRule {
    /// The client accepts `text/plain` and says nothing of JSON or of anything at all.
    package static func prefersText(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        var acceptsText = false
        // Several fields are one list (RFC 9110 section 5.3).
        for field in head.fields where bytes.equalsLowercased(field.name, "accept") {
            let accepted = bytes.string(field.value).lowercased()
            if accepted.contains("json") || accepted.contains("*/*") { return false }
            acceptsText = acceptsText || accepted.split(separator: ",").contains(where: isText)
        }
        return acceptsText
    }

    /// `text/plain`, unless its weight is 0, which refuses it (RFC 9110 section 12.4.2).
    private static func isText(_ range: Substring) -> Bool {
        let parts = range.filter { $0 != " " && $0 != "\t" }.split(separator: ";")
        guard parts.first == "text/plain" else { return false }
        return !parts.dropFirst().contains { $0.hasPrefix("q=0") && $0.dropFirst(3).allSatisfy { ".0".contains($0) } }
    }
}
