import GatewayCore

extension HTTP1ClientConnection {
    /// Passes a plain request to a server that no route leads to.
    func forward(_ unrouted: UnroutedRequest, id: RequestID) {
        do throws(ListenerError) {
            let way = try unroutedRoute(to: unrouted.server)
            begin(id, unrouted.admitted, by: way.route)
        } catch {
            refuse(GatewayProblem(.internalError, error.description), id: id)
        }
    }

    /// The route of the last such request is used again for the same server and client.
    private func unroutedRoute(to server: TunnelDestination) throws(ListenerError) -> UnroutedRoute {
        if let unroutedRoute, unroutedRoute.leads(to: server) { return unroutedRoute }
        let new = try UnroutedRoute(to: server, under: configuration)
        unroutedRoute = new
        return new
    }
}
