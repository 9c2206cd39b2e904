package import GatewayHTTP

/// Sends one request to an authorization server: verified TLS, no redirects, bounded answer, one deadline for the whole of it.
///
/// A call passes up to four of them, the outermost first. Each knows something that the others must not, and each is left out
/// where it is not needed, so they are a chain and not one type:
///
/// - `AuthorityClocks` compares clocks, and tells operators of a difference; a command that fetches one token has no use for it.
/// - `AssertionEndpoint` reads the assertions that are part of a request, from a file or with a request of its own. Whatever sends
///   the requests of grants and logins needs it.
/// - `TracedTokenEndpoint` records a span for each request that is sent, those for assertions included; with `telemetry` only.
/// - `OutgoingHTTP` sends the request as it is.
package protocol TokenEndpoint: Sendable {
    func send(_ request: TokenRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure>
}

/// Sends the requests of one credential through its proxy.
///
/// The keeper of the credential has one. Other endpoints serve all credentials.
struct ProxiedTokenEndpoint: TokenEndpoint {
    let endpoint: any TokenEndpoint
    let proxy: ProxyRule
    /// Whether an operator has locked the credential of that name, which the proxy is sent.
    let isLocked: @Sendable (String) -> Bool

    func send(_ request: TokenRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure> {
        var request = request
        request.proxy = proxy
        if let problem = proxy.parent(for: request.url.origin)?.lockProblem(isLocked) {
            return .failure(TokenTransportFailure(problem))
        }
        return await endpoint.send(request, deadline: deadline)
    }
}

extension CredentialPlan {
    /// What sends the requests of this credential.
    ///
    /// - Parameter isLocked: Whether an operator has locked the credential of that name.
    package func proxied(
        _ endpoint: any TokenEndpoint,
        isLocked: @escaping @Sendable (String) -> Bool = { _ in false }
    ) -> any TokenEndpoint {
        proxy.map { ProxiedTokenEndpoint(endpoint: endpoint, proxy: $0, isLocked: isLocked) } ?? endpoint
    }
}

/// Runs programs of the configuration: no shell, a small environment, a bound on the output, one deadline for all of it.
package protocol ProgramRunner: Sendable {
    /// - Parameter input: What the program reads from its standard input; nil for nothing.
    /// - Returns: What it printed on its standard output, when it ended with status 0.
    func run(_ program: TokenProgram, input: Secret?, deadline: Duration) async -> Result<[UInt8], ProgramFailure>
}

/// Runs none.
package struct NoPrograms: ProgramRunner {
    package init() {}

    package func run(
        _ program: TokenProgram,
        input: Secret?,
        deadline: Duration
    ) async -> Result<[UInt8], ProgramFailure> {
        .failure(ProgramFailure(.notStarted, "cannot be started here"))
    }
}
