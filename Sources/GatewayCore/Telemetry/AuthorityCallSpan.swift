extension TelemetrySpan {
    /// A call to an authority, in a trace of its own: requests that need its token share it.
    ///
    /// - Parameters:
    ///   - start: Nanoseconds since 1970.
    ///   - end: The same.
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
            attributes.append(TelemetryAttribute("http.response.status_code", reply.status))
            error = reply.status >= 400 ? String(reply.status) : nil
        case .failure(let failure): error = failure.reason.rawValue
        }
        if let error { attributes.append(TelemetryAttribute("error.type", error)) }
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
