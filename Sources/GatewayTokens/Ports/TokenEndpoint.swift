/// Sends one request to an authority: verified TLS, no redirects, bounded answer, one deadline for the whole of it.
package protocol TokenEndpoint: Sendable {
    func send(_ request: TokenRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure>
}
