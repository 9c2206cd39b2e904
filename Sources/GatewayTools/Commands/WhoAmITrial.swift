import AsyncHTTPClient
import GatewayApp
import GatewayHTTP
import GatewayLocalAuthority
import GatewayProxy
import GatewayTokens
import NIOCore
import NIOHTTP1

/// Sends the `whoami` requests of routes through a gateway, and says what the services answer.
struct WhoAmITrial: Sendable {
    private static let limit: Duration = .seconds(15)
    /// Requests under way at a time.
    private static let maximumAtOnce = 8
    private static let answerLimit = 1 << 20

    struct Answer: Sendable {
        let route: String
        let request: WhoAmI
        let answer: WhoAmIAnswer

        var text: String { LogText.clean("\(route): \(answer.text(to: request))") }
    }

    /// Those that are asked, and what.
    private let questions: [(route: RoutePlan, whoami: WhoAmI)]
    private let credentials: [CredentialPlan]

    /// - Parameter credentials: Indices into ``Plan/credentials``: only routes with one of these are asked.
    init(_ plan: Plan, credentials: Set<Int>) {
        self.credentials = plan.credentials
        questions = plan.routes.compactMap { route in
            guard let whoami = route.whoami, let credential = route.credential, credentials.contains(credential) else {
                return nil
            }
            return (route, whoami)
        }
    }

    /// Starts a gateway for it, which keeps no token and ends afterwards.
    func run(_ plan: Plan) async throws(CommandFailure) -> [Answer] {
        guard !questions.isEmpty else { return [] }
        let token = EphemeralGateway.newToken()
        let (result, failure) = try await EphemeralGateway.serve(plan.reserved(for: token)) { place in
            await ask(place.endpoint, token: token)
        }
        if let failure { throw failure }
        return try result.get()
    }

    /// - Parameter token: The token of the client.
    private func ask(_ endpoint: ProxyEndpoint, token: Secret) async -> [Answer] {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.proxy = nil
        configuration.httpVersion = .http1Only
        configuration.timeout.connect = .seconds(5)
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let answers = await withTaskGroup(of: (Int, Answer).self) { tasks in
            var answers: [(Int, Answer)] = []
            for (index, question) in questions.enumerated() {
                if index >= Self.maximumAtOnce, let answer = await tasks.next() { answers.append(answer) }
                tasks.addTask { (index, await answer(question.route, question.whoami, client, endpoint, token)) }
            }
            for await answer in tasks { answers.append(answer) }
            return answers
        }
        try? await client.shutdown()
        return answers.sorted { $0.0 < $1.0 }.map(\.1)
    }

    private func answer(
        _ route: RoutePlan,
        _ whoami: WhoAmI,
        _ client: HTTPClient,
        _ endpoint: ProxyEndpoint,
        _ token: Secret
    ) async -> Answer {
        let request = request(route, whoami, to: endpoint, token: token)
        let secrets = route.credential.map { credentials[$0].injectedSecrets } ?? []
        let answer = await Deadline.value(within: Self.limit) {
            await Self.answer(to: whoami, client, request, hiding: secrets)
        }
        let overdue = WhoAmIAnswer.failed("no answer within \(ConfigUnits.text(Self.limit))")
        return Answer(route: route.name, request: whoami, answer: answer ?? overdue)
    }

    private func request(
        _ route: RoutePlan,
        _ whoami: WhoAmI,
        to endpoint: ProxyEndpoint,
        token: Secret
    ) -> HTTPClientRequest {
        let (host, target) = route.target(of: whoami, at: endpoint.authority)
        var request = HTTPClientRequest(url: "\(endpoint.url())\(target)")
        request.method = HTTPMethod(rawValue: whoami.method.rawValue)
        request.headers.add(name: "Host", value: host)
        request.headers.add(name: "Accept", value: "application/json")
        request.headers.add(name: "User-Agent", value: "authgateway/\(GatewayVersion.current)")
        token.withValue { request.headers.add(name: "Proxy-Authorization", value: "Bearer \($0)") }
        return request
    }

    private static func answer(
        to whoami: WhoAmI,
        _ client: HTTPClient,
        _ request: HTTPClientRequest,
        hiding secrets: [Secret]
    ) async -> WhoAmIAnswer {
        do {
            let response = try await client.execute(request, timeout: .nanoseconds(limit.wholeNanoseconds))
            let body = try? await response.body.collect(upTo: answerLimit)
            let json = body.flatMap { JSONValue(Array($0.readableBytesView)) }
            let isProblem = response.headers.first(name: "Content-Type")?.hasPrefix(ProblemDocument.mediaType) ?? false
            // What the gateway says itself has a code, and did not come from an upstream (RFC 9209 section 2.1.5, RFC 9110 section 7.6.3).
            let proxyStatus = response.headers["Proxy-Status"].joined(separator: ", ")
            let isForwarded = proxyStatus.contains("received-status") || response.headers.contains(name: "Via")
            if isProblem, !isForwarded, case .object(let members)? = json, case .string? = members["code"],
                case .string(let detail)? = members["detail"]
            {
                return .failed(detail)
            }
            return WhoAmIAnswer(status: Int(response.status.code), body: json, to: whoami, hiding: secrets)
        } catch {
            return .failed("the gateway does not answer")
        }
    }
}

extension CredentialPlan {
    /// As far as the configuration holds them; a token that was fetched is told by its form.
    fileprivate var injectedSecrets: [Secret] {
        guard case .fixed(let injection) = strategy.behavior else { return [] }
        return injection.fields.map(\.value) + [injection.query?.value, injection.path?.value].compactMap(\.self)
    }

    /// Another gateway can use it for a moment without spending what renews it.
    var canBeUsedElsewhere: Bool {
        switch strategy.behavior {
        case .fixed, .onChallenge, .signed: true
        case .token(let grant): grant.isRenewable && !grant.rotatesRefreshToken
        case .none, .tokens: false
        }
    }
}

extension Plan {
    /// Lets in one client alone, to every route.
    fileprivate func reserved(for token: Secret) -> Plan {
        var plan = self
        plan.access.clients = [AccessPlan.Client(name: "whoami", proof: .token(token))]
        plan.access.requireClient = .true
        for index in plan.routes.indices { plan.routes[index].clients = nil }
        return plan
    }
}
