import GatewayCore
import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore

/// Answers one request of the admin listener: the guard first, then who may do what, then the router, then problem documents for what is left.
struct AdminService<Responder: HTTPResponder>: Sendable where Responder.Context == AdminContext {
    let guardian: AdminRequestGuard
    let responder: Responder
    let options: AdminOptions
    let security: AdminSecurity?
    let logger: Logger

    func respond(to request: Request, on channel: any Channel) async -> Response {
        let port = channel.localAddress?.port ?? 0
        switch guardian.decision(authority: request.head.authority, port: port, fields: request.headers) {
        case .misdirected:
            return AdminResponse.problem(GatewayProblem(.misdirected, "Use the address that the gateway printed."))
        case .originRefused:
            return AdminResponse.problem(GatewayProblem(.originRefused, "Other web sites may not use this listener."))
        case .pass: return await authorized(request, on: channel)
        }
    }

    /// Nothing reaches the router that the table of routes does not know, but for operators.
    private func authorized(_ request: Request, on channel: any Channel) async -> Response {
        let authorization = options.authorization
        let source = ApplicationRequestContextSource(channel: channel, logger: logger)
        var context = AdminContext(source: source)
        context.peer = await security?.peer(channel)
        context.evidence = authorization.evidence(of: request, peer: context.peer)
        context.maySeeOn = { [options, security] in
            guard options.requiresToken else { return true }
            let authorization = options.authorization
            let evidence = authorization.evidence(of: request, peer: await security?.peer(channel))
            return authorization.authorizer.refusal(of: evidence, needing: .viewer) == nil
        }
        let demand = AdminRouteTable.demand(
            method: request.method.rawValue,
            path: request.uri.path,
            hasQuery: request.uri.query != nil
        )
        guard let role = demand.role, role == .operator || options.requiresToken else {
            return await routed(request, context)
        }
        if let problem = await authorization.refusal(of: context.evidence, needing: role, for: request) {
            let isHidden = demand == .unknown && !options.requiresToken
            return isHidden ? Self.noSuchPage : AdminResponse.problem(problem)
        }
        return await routed(request, context)
    }

    private static var noSuchPage: Response {
        AdminResponse.problem(GatewayProblem(.noRoute, "There is no such page here."))
    }

    private func routed(_ request: Request, _ context: AdminContext) async -> Response {
        do {
            let response = try await responder.respond(to: request, context: context)
            // The router answers what it does not know by itself, without a body.
            guard response.status == .notFound, response.headers[.contentType] == nil else { return response }
            return Self.noSuchPage
        } catch {
            logger.error("Admin request failed", metadata: ["error": "\(type(of: error))"])
            return AdminResponse.problem(GatewayProblem(.internalError, "The request could not be answered."))
        }
    }
}
