import GatewayFiles
import GatewayHTTP
import GatewayProxy
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
            return isHidden ? AdminResponse.noSuchPage : AdminResponse.problem(problem)
        }
        return await routed(request, context)
    }

    private func routed(_ request: Request, _ context: AdminContext) async -> Response {
        do {
            let response = try await responder.respond(to: request, context: context)
            // The router answers what it does not know by itself, without a body.
            guard response.status == .notFound, response.headers[.contentType] == nil else { return response }
            return AdminResponse.noSuchPage
        } catch {
            logger.error("Admin request failed", metadata: ["error": "\(type(of: error))"])
            return AdminResponse.problem(GatewayProblem(.internalError, "The request could not be answered."))
        }
    }
}

/// What a request of the admin listener came with.
struct AdminContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel
    /// Who the client certificate of the connection names; nil without one.
    var peer: PeerIdentity?
    /// Who sent the request, by its fields and its connection.
    var evidence = AdminAuthorizer.Evidence.none
    /// Whether who sent the request may still see what it asks for. For an answer that goes on after a reload.
    var maySeeOn: @Sendable () async -> Bool = { true }

    /// A user, or the address of someone who has shown no proof, for whatever several share fairly.
    var asker: String {
        switch evidence {
        case .person(.user(let name, _)): return "user \(name)"
        case .person(.holderOfAdminToken): return "admin token"
        case .none, .unknown, .contradictory:
            return PeerAddressKey.network(ofAddress: channel.remoteAddress?.ipAddress ?? "")
        }
    }

    /// The user of this machine at the other end of the connection; nil if unknown, or on another machine.
    func user() async -> UInt32? {
        guard let own = channel.localAddress, let port = own.port, let peer = channel.remoteAddress,
            let peerPort = peer.port
        else { return try? await UnixSocket.peerUser(channel).get() }
        guard let client = IPAddress(peer.ipAddress ?? ""), let server = IPAddress(own.ipAddress ?? "") else {
            return nil
        }
        let found = await OwnThread.run(within: .seconds(5)) { _ in
            SocketOwners.connected((client, peerPort), to: (server, port))
        }
        return try? found.get()
    }

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }
}

/// Decides whether a request may reach the admin listener at all.
///
/// A web page that the operator has open can make the browser speak to loopback: by rebinding its own name to 127.0.0.1
/// (then `Host` names the page) or by a cross-site request (then `Origin` or `Sec-Fetch-Site` says so). Both end here.
struct AdminRequestGuard: Sendable {
    enum AccessDecision: Hashable, Sendable {
        case pass
        /// RFC 9110 §15.5.20: the authority is not one of ours.
        case misdirected
        case originRefused
    }

    /// Lower case, without port, an IPv6 address in brackets. nil on a unix socket, which no browser reaches, and with TLS, where
    /// the certificate has told the browser whose name is ours.
    private let names: Set<String>?
    private let scheme: Origin.Scheme

    /// - Parameter host: What the listener is bound to; the loopback names are added. nil for a unix socket, where any name
    ///   will do.
    init(host: String?, isTLS: Bool = false) {
        scheme = isTLS ? .https : .http
        guard let host = host?.lowercased(), !isTLS else {
            names = nil
            return
        }
        names = ["127.0.0.1", "localhost", "[::1]", Origin.urlHost(host)]
    }

    /// - Parameters:
    ///   - authority: `Host`, or the authority of an absolute target.
    ///   - port: The port of the listener.
    func decision(authority: String?, port: Int, fields: HTTPFields) -> AccessDecision {
        let authority = authority?.lowercased() ?? ""
        if let names {
            guard Self.isOne(of: names, authority, port: port) else { return .misdirected }
        }
        if let origin = fields[.origin] {
            guard origin.lowercased() == "\(scheme.rawValue)://\(authority)" else { return .originRefused }
        }
        if let site = fields.first(where: { $0.name.canonicalName == "sec-fetch-site" }) {
            guard site.value == "none" || site.value == "same-origin" else { return .originRefused }
        }
        return .pass
    }

    private static func isOne(of names: Set<String>, _ authority: String, port: Int) -> Bool {
        if port == 80, names.contains(authority) { return true }
        let suffix = ":\(port)"
        return authority.hasSuffix(suffix) && names.contains(String(authority.dropLast(suffix.count)))
    }
}

/// Who sent a request of the admin listener, and whether that person may do what it asks for.
///
/// Made for each request, so that it knows the users of the present configuration.
struct AdminAuthorization: Sendable {
    let authorizer: AdminAuthorizer
    /// Records what a user does before it is done.
    let record: AdminOptions.Record
    let denied: AdminOptions.Denied

    func evidence(of request: Request, peer: PeerIdentity?) -> AdminAuthorizer.Evidence {
        let scheme = "bearer "
        let value = request.headers[.authorization]
        let token = value.flatMap {
            $0.lowercased().hasPrefix(scheme) ? Array($0.utf8.dropFirst(scheme.utf8.count)) : nil
        }
        return authorizer.evidence(presenting: token, peer: peer)
    }

    /// What a person typed into a form; what a paste adds around a token does not count.
    func evidence(typed text: String, peer: PeerIdentity?) -> AdminAuthorizer.Evidence {
        let token = Array(text.utf8.filter { $0 > 0x20 })
        return authorizer.evidence(presenting: token.isEmpty ? nil : token, peer: peer)
    }

    /// - Returns: Why the request is refused; nil when it may go on, and is recorded where the role is that of an operator.
    func refusal(
        of evidence: AdminAuthorizer.Evidence,
        needing role: AdminRole,
        for request: Request
    ) async -> GatewayProblem? {
        if let problem = authorizer.refusal(of: evidence, needing: role) {
            var user: String?
            if case .person(.user(let name, _)) = evidence { user = name }
            denied(request.method.rawValue, request.uri.path, user, problem.kind)
            return problem
        }
        guard role == .operator, case .person(.user(let name, let own)) = evidence else { return nil }
        let (method, path) = (request.method.rawValue, request.uri.path)
        let withdraws = AdminRouteTable.mayWithdraw(method: method, path: path)
        return await record(AdminAction(user: name, role: own, method: method, path: path, withdraws: withdraws))
    }

    /// Checks the token that was typed into a form, as for any other request.
    ///
    /// - Returns: What the page says; nil where the person may.
    func refusal(typed text: String, _ context: AdminContext, _ request: Request) async -> String? {
        let evidence = evidence(typed: text, peer: context.peer)
        guard let problem = await refusal(of: evidence, needing: .operator, for: request) else { return nil }
        return problem.kind == .adminAuthRequired
            ? "This is not the admin token of the running gateway." : problem.detail
    }
}
