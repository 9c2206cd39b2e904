package import GatewayHTTP
package import GatewayProxy
package import GatewayTokens

/// What a finished request says to telemetry. No path, no query, no field and no credential: they can hold secrets.
package struct TracedRequest: Sendable {
    /// What is known of a route.
    package struct Route: Hashable, Sendable {
        package let name: String
        /// Where its paths begin.
        package let path: String
        package let upstream: Origin
    }

    private let trace: RequestTrace
    private let requestID: RequestID
    /// The observer's number.
    package let route: Int?
    private let client: String?
    private let method: String
    private let isTLS: Bool
    private let status: Int
    private let problem: ProblemKind?
    /// The name and generation of the credential; nil if nothing was injected.
    private let credential: (name: String, generation: Int)?
    private let startedAt: MonotonicTime
    private let finishedAt: MonotonicTime

    package init(_ record: borrowing ExchangeRecord, _ trace: RequestTrace) {
        self.trace = trace
        requestID = record.requestID
        route = record.route
        client = record.client
        method = record.method
        isTLS = record.isTLS
        status = record.status
        problem = record.problem
        credential = record.credential.map { ($0.name, $0.generation) }
        startedAt = record.startedAt
        finishedAt = record.finishedAt
    }
}

/// The spans of a request, and what they say.
extension TracedRequest {
    /// The span of the request, and one below it for each time that it was sent to the upstream.
    ///
    /// - Parameter offset: What to add to a monotonic reading to get nanoseconds since 1970.
    func spans(_ route: Route?, offset: Int64) -> [TelemetrySpan] {
        let method = HTTPConventions.method(method)
        var spans = [server(method, route, offset)]
        guard let route, trace.tries > 0 else { return spans }
        if let earlier = trace.earlier {
            let status = Int(earlier.status)
            let error = status == 0 ? "connection_lost" : HTTPConventions.error(ofClientSpan: status, nil)
            let (sent, ended) = (earlier.sentAt.nanoseconds &+ offset, earlier.endedAt.nanoseconds &+ offset)
            spans.append(
                upstream(method, route, earlier.span, status, error, tries: trace.tries - 1, from: sent, to: ended)
            )
        }
        // What the gateway answered by itself is not the upstream's.
        let status = problem == nil ? status : 0
        let error = HTTPConventions.error(ofClientSpan: status, problem)
        let (sent, ended) = (trace.sentAt.nanoseconds &+ offset, finishedAt.nanoseconds &+ offset)
        spans.append(
            upstream(method, route, trace.upstreamSpan, status, error, tries: trace.tries, from: sent, to: ended)
        )
        return spans
    }

    private func server(_ method: String, _ route: Route?, _ offset: Int64) -> TelemetrySpan {
        var attributes = [
            TelemetryAttribute("http.request.method", method),
            TelemetryAttribute("url.scheme", isTLS ? "https" : "http"),
            TelemetryAttribute("gateway.request_id", requestID.description),
        ]
        attributes.add("http.response.status_code", status > 0 ? status : nil)
        attributes.add("http.route", route?.path)
        attributes.add("gateway.route", route?.name)
        attributes.add("gateway.client", client)
        attributes.add("gateway.credential", credential?.name)
        attributes.add("gateway.credential.generation", credential?.generation)
        attributes.add("error.type", HTTPConventions.error(ofServerSpan: status, problem))
        return TelemetrySpan(
            trace: trace.trace,
            span: trace.span,
            parent: trace.parent,
            name: route.map { "\(method) \($0.path)" } ?? method,
            kind: .server,
            start: startedAt.nanoseconds &+ offset,
            end: finishedAt.nanoseconds &+ offset,
            attributes: attributes,
            isError: HTTPConventions.isServerError(status, problem)
        )
    }

    private func upstream(
        _ method: String,
        _ route: Route,
        _ span: UInt64,
        _ status: Int,
        _ error: String?,
        tries: UInt8,
        from start: Int64,
        to end: Int64
    ) -> TelemetrySpan {
        var attributes = [
            TelemetryAttribute("http.request.method", method),
            TelemetryAttribute("server.address", route.upstream.host),
            TelemetryAttribute("server.port", route.upstream.port),
            TelemetryAttribute("url.scheme", route.upstream.scheme.rawValue),
        ]
        attributes.add("http.response.status_code", status > 0 ? status : nil)
        attributes.add("http.request.resend_count", tries > 1 ? Int(tries) - 1 : nil)
        attributes.add("error.type", error)
        return TelemetrySpan(
            trace: trace.trace,
            span: span,
            parent: trace.span,
            name: method,
            kind: .client,
            start: start,
            end: end,
            attributes: attributes,
            isError: error != nil
        )
    }
}

extension TelemetrySpan {
    /// A call to an authority, in a trace of its own: requests that need its token share it.
    ///
    /// - Parameters:
    ///   - start: Nanoseconds since 1970.
    ///   - end: Nanoseconds since 1970.
    package init(
        of request: TokenRequest,
        _ result: Result<TokenReply, TokenTransportFailure>,
        in trace: TraceContext.TraceID,
        _ span: UInt64,
        from start: Int64,
        to end: Int64
    ) {
        let origin = request.url.origin
        var attributes = [
            TelemetryAttribute("http.request.method", request.method.rawValue),
            TelemetryAttribute("server.address", origin.host), TelemetryAttribute("server.port", origin.port),
            TelemetryAttribute("url.scheme", origin.scheme.rawValue),
        ]
        let error: String?
        switch result {
        case .success(let reply):
            attributes.add("http.response.status_code", reply.status)
            error = reply.status >= 400 ? String(reply.status) : nil
        case .failure(let failure): error = failure.reason.rawValue
        }
        attributes.add("error.type", error)
        self.init(
            trace: trace,
            span: span,
            parent: 0,
            name: request.method.rawValue,
            kind: .client,
            start: start,
            end: end,
            attributes: attributes,
            isError: error != nil
        )
    }
}

/// What OpenTelemetry's conventions for HTTP (version 1.27) want of the values.
enum HTTPConventions {
    private static let methods: Set<String> = [
        "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
    ]

    /// Clients can make up methods without end, so those that are not registered share one name.
    static func method(_ name: String) -> String { methods.contains(name) ? name : "_OTHER" }

    /// Seconds.
    static let durationBounds: [Double] = [
        0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
    ]

    /// `error.type`: the problem that the gateway answered with, or the status of a failure; nil for a success.
    static func error(ofServerSpan status: Int, _ problem: ProblemKind?) -> String? {
        if let problem { return problem.rawValue }
        if status == 0 { return "client_left" }
        return status >= 500 ? String(status) : nil
    }

    /// What a client did wrong is no error of the server's. A response that the gateway cut is one.
    fileprivate static func isServerError(_ status: Int, _ problem: ProblemKind?) -> Bool {
        let status = status == 0 ? problem?.status ?? 0 : status
        // A call that a rule refuses is answered with 200 (``RPCRefusal``).
        return status >= 500 || problem != nil && problem != .routeForbidden && status < 400
    }

    /// A status from 400 on is a failure for the sender of the request.
    static func error(ofClientSpan status: Int, _ problem: ProblemKind?) -> String? {
        if let problem { return problem.rawValue }
        if status == 0 { return "no_response" }
        return status >= 400 ? String(status) : nil
    }
}
