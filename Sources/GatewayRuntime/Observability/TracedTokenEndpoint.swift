import GatewayCore

/// Calls to authorities with a span for each.
struct TracedTokenEndpoint: TokenEndpoint {
    let endpoint: any TokenEndpoint
    let telemetry: RequestTelemetry
    let clock: any GatewayClock

    func send(_ request: TokenRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure> {
        let start = clock.now()
        let result = await endpoint.send(request, deadline: deadline)
        let took = (clock.monotonic() - start.monotonic).wholeNanoseconds
        let begin = start.wall.milliseconds &* 1_000_000
        telemetry.called { trace, span in
            TelemetrySpan(of: request, result, in: trace, span, from: begin, to: begin &+ took)
        }
        return result
    }
}
