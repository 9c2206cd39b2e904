import GatewayCore
import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore

/// Answers one request of the admin listener: the guard first, then the router, then problem documents for what is left.
struct AdminService<Responder: HTTPResponder>: Sendable where Responder.Context == AdminContext {
    let guardian: AdminRequestGuard
    let responder: Responder
    /// Asked where the admin token is needed to see something.
    let authorization: AdminAuthorization?
    let logger: Logger

    func respond(to request: Request, on channel: any Channel) async -> Response {
        let port = channel.localAddress?.port ?? 0
        switch guardian.decision(authority: request.head.authority, port: port, fields: request.headers) {
        case .misdirected:
            return AdminResponse.problem(GatewayProblem(.misdirected, "Use the address that the gateway printed."))
        case .originRefused:
            return AdminResponse.problem(GatewayProblem(.originRefused, "Other web sites may not use this listener."))
        case .pass:
            if let authorization, !AdminAccessRule.isOpen(request), let refusal = authorization.refusal(of: request) {
                return refusal
            }
            return await routed(request, on: channel)
        }
    }

    private func routed(_ request: Request, on channel: any Channel) async -> Response {
        let source = ApplicationRequestContextSource(channel: channel, logger: logger)
        do {
            let response = try await responder.respond(to: request, context: AdminContext(source: source))
            // The router answers what it does not know by itself, without a body.
            guard response.status == .notFound, response.headers[.contentType] == nil else { return response }
            return AdminResponse.problem(GatewayProblem(.noRoute, "There is no such page here."))
        } catch {
            logger.error("Admin request failed", metadata: ["error": "\(type(of: error))"])
            return AdminResponse.problem(GatewayProblem(.internalError, "The request could not be answered."))
        }
    }
}
