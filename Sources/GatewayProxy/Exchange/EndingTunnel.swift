import GatewayCore

/// The upstream's end of a tunnel whose client has left in good order: what it sent last is on its way.
struct EndingTunnel {
    let upstream: any UpstreamStream
    /// It is over. It still has the client, the route and the credential that the tunnel was opened with.
    let exchange: ExchangeDriver
}

extension ExchangeDriver {
    /// An operator has taken the credential away.
    func isOver(by withdrawn: WithdrawnCredentials) -> Bool {
        guard let source, let credential else { return false }
        return withdrawn.event(credential, of: source, at: shared.clock.monotonic()) != nil
    }

    /// A reload has taken the client, the route or the credential away, or its rules refuse the request.
    func isOver(by withdrawal: ReloadWithdrawal, _ verdict: ReloadWithdrawal.Verdict) -> Bool {
        withdrawal.takesRight(of: record.client, route: admitted.route, on: admitted.reach, verdict: verdict)
    }
}
