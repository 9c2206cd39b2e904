/// What a finished request says to telemetry. No path, no query, no field and no credential: they can hold secrets.
package struct TracedRequest: Sendable {
    /// What is known of a route.
    package struct Route: Hashable, Sendable {
        package let name: String
        /// Where its paths begin.
        package let path: String
        package let upstream: Origin

        package init(name: String, path: String, upstream: Origin) {
            self.name = name
            self.path = path
            self.upstream = upstream
        }
    }

    package let trace: RequestTrace
    package let requestID: RequestID
    /// The observer's number.
    package let route: Int?
    package let client: String?
    package let method: String
    package let isTLS: Bool
    package let status: Int
    package let problem: ProblemKind?
    /// Its name and generation.
    package let credential: (name: String, generation: Int)?
    package let startedAt: MonotonicTime
    package let finishedAt: MonotonicTime

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

extension TracedRequest {
    /// The span of the request, and one below it for each time that it was sent to the upstream.
    ///
    /// - Parameter offset: What to add to a monotonic reading to get nanoseconds since 1970.
    package func spans(_ route: Route?, offset: Int64) -> [TelemetrySpan] {
        let method = HTTPConventions.method(method)
        var spans = [server(method, route, offset)]
        guard let route, trace.tries > 0 else { return spans }
        if let earlier = trace.earlier {
            let status = Int(earlier.status)
            let error = status == 0 ? "connection_lost" : HTTPConventions.error(ofClientSpan: status, nil)
            spans.append(
                upstream(method, route, earlier.span, status, error, tries: trace.tries - 1)
                    .within(earlier.sentAt, earlier.endedAt, offset)
            )
        }
        // What the gateway answered by itself is not the upstream's.
        let status = problem == nil ? status : 0
        spans.append(
            upstream(
                method,
                route,
                trace.upstreamSpan,
                status,
                HTTPConventions.error(ofClientSpan: status, problem),
                tries: trace.tries
            ).within(trace.sentAt, finishedAt, offset)
        )
        return spans
    }

    private func server(_ method: String, _ route: Route?, _ offset: Int64) -> TelemetrySpan {
        var attributes = [
            TelemetryAttribute("http.request.method", method),
            TelemetryAttribute("url.scheme", isTLS ? "https" : "http"),
            TelemetryAttribute("gateway.request_id", requestID.description),
        ]
        if status > 0 { attributes.append(TelemetryAttribute("http.response.status_code", status)) }
        if let route {
            attributes += [
                TelemetryAttribute("http.route", route.path), TelemetryAttribute("gateway.route", route.name),
            ]
        }
        if let client { attributes.append(TelemetryAttribute("gateway.client", client)) }
        if let credential {
            attributes += [
                TelemetryAttribute("gateway.credential", credential.name),
                TelemetryAttribute("gateway.credential.generation", credential.generation),
            ]
        }
        let error = HTTPConventions.error(ofServerSpan: status, problem)
        if let error { attributes.append(TelemetryAttribute("error.type", error)) }
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

    private struct UpstreamSpan {
        let request: TracedRequest
        let span: UInt64
        let name: String
        let attributes: [TelemetryAttribute]
        let isError: Bool

        func within(_ start: MonotonicTime, _ end: MonotonicTime, _ offset: Int64) -> TelemetrySpan {
            TelemetrySpan(
                trace: request.trace.trace,
                span: span,
                parent: request.trace.span,
                name: name,
                kind: .client,
                start: start.nanoseconds &+ offset,
                end: end.nanoseconds &+ offset,
                attributes: attributes,
                isError: isError
            )
        }
    }

    private func upstream(
        _ method: String,
        _ route: Route,
        _ span: UInt64,
        _ status: Int,
        _ error: String?,
        tries: UInt8
    ) -> UpstreamSpan {
        var attributes = [
            TelemetryAttribute("http.request.method", method),
            TelemetryAttribute("server.address", route.upstream.host),
            TelemetryAttribute("server.port", route.upstream.port),
            TelemetryAttribute("url.scheme", route.upstream.scheme.rawValue),
        ]
        if status > 0 { attributes.append(TelemetryAttribute("http.response.status_code", status)) }
        if tries > 1 { attributes.append(TelemetryAttribute("http.request.resend_count", Int(tries) - 1)) }
        if let error { attributes.append(TelemetryAttribute("error.type", error)) }
        return UpstreamSpan(request: self, span: span, name: method, attributes: attributes, isError: error != nil)
    }
}

/// What OpenTelemetry's conventions for HTTP (version 1.27) want of the values.
package enum HTTPConventions {
    private static let methods: Set<String> = [
        "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
    ]

    /// Of all others there is no end.
    package static func method(_ name: String) -> String { methods.contains(name) ? name : "_OTHER" }

    /// Seconds.
    package static let durationBounds: [Double] = [
        0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
    ]

    /// `error.type`: the problem that the gateway answered with, or the status of a failure; nil for a success.
    package static func error(ofServerSpan status: Int, _ problem: ProblemKind?) -> String? {
        if let problem { return problem.rawValue }
        if status == 0 { return "client_left" }
        return status >= 500 ? String(status) : nil
    }

    /// What a client did wrong is no error of the server's. A response that the gateway cut is one.
    package static func isServerError(_ status: Int, _ problem: ProblemKind?) -> Bool {
        status >= 500 || problem != nil && status < 400
    }

    /// A status from 400 on is a failure for the sender of the request.
    package static func error(ofClientSpan status: Int, _ problem: ProblemKind?) -> String? {
        if let problem { return problem.rawValue }
        if status == 0 { return "no_response" }
        return status >= 400 ? String(status) : nil
    }
}
