import GatewayEvents
import GatewayHTTP
import GatewayTokens
import Logging
import NIOCore

/// Answers one request of an engine: which fields the request needs that it asks about. It holds no rule of its own.
///
///     begin ──▶ original request read ──▶ authorizer ──▶ [token rejected] ──▶ credential ──▶ answer ──▶ done
///       │                │                    │                               │    ▲
///       │                │                    │                               wait ┘ came
///       └────────────────┴────────────────────┴── refuse, withhold ───────────┴──▶ done
///
/// Belongs to the connection's event loop. One connection uses it for one request after the other.
final class AuthorizationExchange {
    let configuration: WorkerConfiguration
    private let engine: AuthzClient
    private unowned let stream: any EngineStream
    /// The engine asks with a message of gRPC, and is answered with one.
    private var isMessage = false
    private var original: OriginalRequest
    private var decoder: RequestHeadDecoder
    /// ``original`` is a request that the authorizer may judge.
    private var isRead = false
    private var id: RequestID
    private var startedAt: MonotonicTime
    /// What became of a generation that the engine reports as rejected; nil where it reports none.
    private var rejection: AuthzOutcome.Outcome?
    private var wait = CredentialWait()
    /// What waits for a credential.
    private var waiter: Waiter?
    /// The beginning of an answer, made once a second.
    private var start: (date: [UInt8], bytes: [UInt8]) = ([], [])

    private struct Waiter {
        let admitted: RequestAuthorizer.Admitted
        let route: WorkerRoute
        let source: any CredentialSource
    }

    init(_ engine: AuthzClient, on stream: any EngineStream, under configuration: WorkerConfiguration) {
        self.engine = engine
        self.stream = stream
        self.configuration = configuration
        original = OriginalRequest(engine.plan)
        let limits = configuration.limits
        decoder = RequestHeadDecoder(maxBytes: limits.headerBytes, maxFields: limits.headerFields)
        id = configuration.nextRequestID()
        startedAt = configuration.shared.clock.monotonic()
    }

    private var shared: ProxyShared { configuration.shared }
    var isWaiting: Bool { wait.isWaiting }

    // MARK: Decision

    /// The engine has proved itself. Nothing else is looked at before that.
    var isProven: Bool {
        let request = stream.request
        let bytes = request.bytes
        return engine.proof.isGiven(
            by: request.decoder.head,
            bytes.readableBytesUInt8Span,
            peer: stream.connectionContext.peer
        )
    }

    /// Decides about the request that has come on the stream.
    func begin() {
        prepare()
        guard isProven else { return refuse(EngineProof.refusal) }
        let request = stream.request
        let bytes = request.bytes
        // A 2xx would open a tunnel (RFC 9110 section 9.3.6).
        guard request.decoder.head.form != .authority else {
            return refuse(GatewayProblem(.methodRefused, "An engine asks by GET, HEAD or POST, and not by CONNECT."))
        }
        do throws(OriginalRequest.Fault) {
            try original.read(request.decoder.head, bytes.readableBytesUInt8Span)
        } catch {
            return refuse(error.problem)
        }
        decide()
    }

    /// Decides about the request that the message of a call describes. The engine has proved itself.
    ///
    /// - Parameter content: The content of the call: one message with its prefix.
    func begin(call content: borrowing Span<UInt8>) {
        prepare()
        guard let message = CheckResponse.message(in: content) else {
            return refuse(
                GatewayProblem(.requestRefused, "The body of the call must be one uncompressed message.")
            )
        }
        isMessage = true
        do throws(OriginalRequest.Fault) {
            try original.read(check: content, message)
        } catch {
            return refuse(error.problem)
        }
        decide()
    }

    private func prepare() {
        id = configuration.nextRequestID()
        startedAt = shared.clock.monotonic()
        isRead = false
        rejection = nil
    }

    private func decide() {
        let bytes = original.bytes
        decoder.reset()
        switch decoder.decode(bytes.span) {
        case .head where decoder.head.end == bytes.count && decoder.head.form != .authority: isRead = true
        case .refused(let reason):
            return refuse(reason.problem("The request that the engine asks about was", under: configuration.limits))
        case .head, .needMore:
            return refuse(GatewayProblem(.requestRefused, "The request that the engine asks about is not valid."))
        }
        var trace: AuthorizationTrace?
        let decision = shared.authorizer.decide(
            decoder.head,
            bytes.span,
            scheme: original.scheme,
            route: original.route,
            askedBy: engine.plan.name,
            on: stream.connectionContext,
            cache: &configuration.engineClients.caches[EngineClients.place(of: decoder.head, bytes.span)],
            trace: &trace
        )
        switch consume decision {
        case .admitted(let admitted): admit(admitted)
        case .refused(let refusal): refuse(refusal.problem, refusal)
        // The authorizer answers engines with neither of them.
        case .preflight: refuse(Self.undecided)
        case .unrouted: refuse(Self.undecided)
        }
    }

    private static let undecided = GatewayProblem(
        .internalError,
        "The gateway reached no decision. This is a bug; please report it."
    )

    private func admit(_ admitted: consuming RequestAuthorizer.Admitted) {
        if let usage = shared.usage(of: admitted.client) {
            if let problem = usage.refusal(at: startedAt) { return refuse(problem, of: admitted) }
            usage.end()
        }
        let route = configuration.route(admitted.match.route)
        guard let source = admitted.chosen ?? route.state.route.source else {
            let detail = "The route has no credential that can be handed to an engine."
            return refuse(GatewayProblem(.credentialMisconfigured, detail), of: admitted)
        }
        if let rejected = rejectedToken(from: source) {
            rejection = reject(rejected, of: source, for: admitted)
        } else if admitted.chosen == nil, route.credential != nil, route.isOffered(at: startedAt) {
            return answer(admitted, by: route, from: source)
        }
        take(from: source, for: admitted, by: route.state)
    }

    private func take(
        from source: any CredentialSource,
        for admitted: consuming RequestAuthorizer.Admitted,
        by route: WorkerRoute
    ) {
        switch source.current(at: startedAt) {
        case .ready(let credential):
            answer(admitted, by: configuration.credentialed(route, credential, from: admitted.chosen), from: source)
        case .wait: waitForCredential(Waiter(admitted: admitted, route: route, source: source))
        case .unavailable(let problem): withhold(problem, from: source, of: admitted)
        }
    }

    // MARK: Rejection

    // A second call: the upstream has rejected what the engine was handed.

    /// What the engine says was rejected; nil for a first call, and for a value that the gateway did not hand out.
    private func rejectedToken(from source: any CredentialSource) -> GenerationMark.Rejected? {
        let request = stream.request
        let bytes = request.bytes
        let span = bytes.readableBytesUInt8Span
        var value: Range<Int>?
        for index in request.decoder.head.section.fields.indices {
            let field = request.decoder.head.section.fields[index]
            guard case .other = field.kind, span.isToken(field.name, "x-gw-rejected-generation") else { continue }
            // A client's own value may stand beside the engine's.
            guard value == nil else { return nil }
            value = field.value
        }
        guard let value, !value.isEmpty else { return nil }
        return engine.mark.rejected(in: span, value, from: source)
    }

    /// Tells the source, if the engine may cause a renewal and the path is not one that rejects every token.
    ///
    /// - Returns: What the engine gets in its place.
    private func reject(
        _ rejected: GenerationMark.Rejected,
        of source: any CredentialSource,
        for admitted: RequestAuthorizer.Admitted
    ) -> AuthzOutcome.Outcome {
        // Another request, or another gateway, has replaced it before.
        guard case .ready(let credential) = source.current(at: startedAt),
            engine.mark.names(credential, rejected, from: source)
        else { return .renewed }
        let generation = credential.generation
        if let obstacle = obstacle(generation, of: source, for: admitted) { return obstacle }
        let (state, engine) = (shared.state, engine.plan.name)
        switch state.spendRenewal(of: engine, source.name, generation: generation, at: startedAt) {
        case .granted: break
        case .refused(let isUnreported):
            if isUnreported {
                shared.logger.warning(
                    "An engine reports more rejected tokens than its budget of renewals allows",
                    metadata: ["gateway.engine": "\(engine)", "gateway.credential": "\(source.name)"]
                )
            }
            return .overBudget
        }
        source.rejected(generation: generation, by: credentialRequest(of: admitted))
        return .renewed
    }

    /// - Returns: What the engine is told where the rejection causes no renewal.
    private func obstacle(
        _ generation: Int,
        of source: any CredentialSource,
        for admitted: RequestAuthorizer.Admitted
    ) -> AuthzOutcome.Outcome? {
        guard let rejections = source.rejections else { return source.isRenewable ? nil : .unchanged }
        let bytes = original.bytes
        let key = rejections.key(shared.routes[admitted.match.route].number, decoder.head, bytes.span)
        // If only a person can replace the token, the next request is told that it has ended.
        rejections.reported(key, generation: generation, at: startedAt)
        let verdict = rejections.verdict(
            on: key,
            generation: generation,
            isRenewable: source.isRenewable,
            client: admitted.client,
            at: startedAt
        )
        return switch verdict {
        case .counts: nil
        case .withoutRenewal: .unchanged
        case .overBudget: .overBudget
        }
    }

    // MARK: Waiting

    private func waitForCredential(_ waiter: consuming Waiter) {
        if let problem = wait.begin(on: waiter.route, for: waiter.admitted.client, under: shared) {
            return withhold(problem, from: waiter.source, of: waiter.admitted)
        }
        let (source, request) = (waiter.source, credentialRequest(of: waiter.admitted))
        self.waiter = waiter
        stream.setDeadline(configuration.timeouts.credential)
        let ticket = wait.ask(source, for: request, on: configuration.loop, self) { exchange, result, number in
            exchange.credentialCame(result, number)
        }
        wait.keep(ticket)
    }

    private func credentialCame(_ result: Result<Credential, GatewayProblem>, _ number: CredentialWait.Number) {
        guard wait.isWaiting(number), let waiter = stopWaiting() else { return }
        switch result {
        case .success(let credential):
            // It may have been withdrawn on its way here.
            guard credential.isOffered(at: shared.clock.monotonic()) else {
                startedAt = shared.clock.monotonic()
                return take(from: waiter.source, for: waiter.admitted, by: waiter.route)
            }
            let route = configuration.credentialed(waiter.route, credential, from: waiter.admitted.chosen)
            answer(waiter.admitted, by: route, from: waiter.source)
        case .failure(let problem): withhold(problem, from: waiter.source, of: waiter.admitted)
        }
    }

    private func stopWaiting() -> Waiter? {
        guard let waiter = waiter.take() else { return nil }
        _ = wait.end(on: waiter.route, of: waiter.admitted.client)
        stream.clearDeadline()
        return waiter
    }

    func deadlinePassed() {
        guard let waiter = giveUp() else { return }
        withhold(CredentialWait.timedOut(under: configuration.limits), from: waiter.source, of: waiter.admitted)
    }

    /// The engine has left, or a reload decides anew.
    func cancel() { _ = giveUp() }

    private func giveUp() -> Waiter? {
        wait.cancel(at: waiter?.source)
        return stopWaiting()
    }

    // MARK: Answer

    private func answer(
        _ admitted: RequestAuthorizer.Admitted,
        by route: CredentialedRoute,
        from source: any CredentialSource
    ) {
        guard let answer = route.answer(to: engine, from: source), let credential = route.credential else {
            let detail =
                "The credential \(source.name) is not sent in header fields alone, and an engine can only be given header fields."
            return refuse(GatewayProblem(.credentialMisconfigured, detail), of: admitted)
        }
        if !answer.isNoted {
            answer.isNoted = true
            source.note(.handedOut, generation: credential.generation, by: credentialRequest(of: admitted))
        }
        if rejection == nil {
            let bytes = original.bytes
            route.handedOut(decoder.head, bytes.span, at: startedAt)
        }
        var record = record(rejection ?? .handedOut)
        record.route = shared.routes[admitted.match.route].number
        record.client = admitted.client
        record.status = 200
        record.credential = credential
        shared.observer.finished(record)
        // The last step: it may end the stream, and with that its memory, or begin with the next request of the connection.
        if isMessage {
            stream.send(message: answer.message.withValue { ByteBuffer(bytes: $0) })
        } else {
            send(answer, for: route.state.route, keptFor: secondsToKeep(credential))
        }
    }

    /// - Parameter seconds: 0 keeps none.
    private func send(_ answer: EngineAnswer, for route: CompiledRoute, keptFor seconds: Int64) {
        let date = configuration.worker.dateLine(at: shared.clock.now().wall)
        if start.date != date { start = (date, Array("HTTP/1.1 200 OK\r\n".utf8) + date) }
        let beginning = start.bytes
        stream.send { out in
            out.writeBytes(beginning)
            answer.lines.withValue { _ = out.writeBytes($0) }
            guard !answer.isNeverKept else { return }
            if seconds > 0 {
                out.writeString("X-Accel-Expires: \(seconds)\r\nCache-Control: private, max-age=\(seconds)\r\n")
                out.writeString(engine.vary)
                for name in route.judgedNames {
                    out.writeStaticString(", ")
                    out.writeBytes(name)
                }
                out.writeStaticString("\r\n")
            } else {
                out.writeStaticString("Cache-Control: no-store\r\n")
            }
        }
    }

    /// How long the answer may be kept, in whole seconds: no longer than the credential is valid.
    private func secondsToKeep(_ credential: Credential) -> Int64 {
        guard let cache = engine.plan.cache else { return 0 }
        let rest = credential.expiresAt.map { min($0 - startedAt, cache) } ?? cache
        return max(0, rest.components.seconds)
    }

    private func credentialRequest(of admitted: RequestAuthorizer.Admitted) -> CredentialRequest {
        let bytes = original.bytes
        return CredentialRequest(
            route: shared.routes[admitted.match.route].plan.name,
            client: admitted.client,
            requestID: id.description,
            clientRequestID: ClientRequestID.read(from: decoder.head, bytes.span),
            engine: engine.plan.name
        )
    }

    // MARK: Problems

    private func withhold(
        _ problem: GatewayProblem,
        from source: any CredentialSource,
        of admitted: RequestAuthorizer.Admitted
    ) {
        source.note(.withheld, generation: 0, by: credentialRequest(of: admitted))
        refuse(problem, of: admitted)
    }

    private func refuse(_ problem: GatewayProblem, of admitted: RequestAuthorizer.Admitted) {
        refuse(
            problem,
            route: shared.routes[admitted.match.route],
            client: admitted.client,
            disclosesNames: admitted.disclosesNames
        )
    }

    func refuse(_ problem: GatewayProblem, _ refusal: RequestAuthorizer.Refusal? = nil) {
        refuse(
            problem,
            route: refusal?.route.map { shared.routes[$0] },
            client: refusal?.client,
            disclosesNames: refusal?.disclosesNames ?? false
        )
    }

    private func refuse(_ problem: GatewayProblem, route: CompiledRoute?, client: String?, disclosesNames: Bool) {
        let status = engine.plan.contract.status(of: problem.kind)
        var record = record(AuthzOutcome.Outcome(problem.kind))
        record.route = route?.number
        record.client = client
        record.status = status
        record.problem = problem.kind
        record.failure = RequestFailure(problem, credential: route?.credentialName, place: place)
        shared.observer.finished(record)
        let subject = ProblemSubject(requestID: id, route: route, disclosesNames: disclosesNames)
        var form = ProblemAnswer.Form(omitsBody: stream.request.decoder.head.isHead, status: status)
        guard !isMessage else {
            let denied = CheckResponse.denied(shared.answer(problem, to: subject, in: form), problem.kind)
            stream.send(message: ByteBuffer(bytes: denied))
            return
        }
        // Without a message that can be answered, the call fails.
        form.isGRPC = stream.isCall
        stream.send(shared.answer(problem, to: subject, in: form))
    }

    private func record(_ outcome: AuthzOutcome.Outcome) -> ExchangeRecord {
        let bytes = original.bytes
        var record = ExchangeRecord(
            requestID: id,
            clientRequestID: isRead ? ClientRequestID.read(from: decoder.head, bytes.span) : nil,
            worker: configuration.worker.number,
            route: nil,
            client: nil,
            method: isRead ? decoder.head.methodName(bytes.span) : "",
            startedAt: startedAt,
            finishedAt: shared.clock.monotonic()
        )
        record.engine = AuthzOutcome(name: engine.plan.name, outcome: outcome)
        record.isTLS = stream.isTLS
        return record
    }

    private var place: RequestPlace {
        guard isRead else { return RequestPlace(peer: stream.peer) }
        let bytes = original.bytes
        return RequestPlace(decoder.head, bytes.span, peer: stream.peer)
    }
}

// MARK: - The stream

/// One request of an engine and its answer, as its connection carries them.
protocol EngineStream: AnyObject {
    /// The engine's own request.
    var request: RequestMessage { get }
    var connectionContext: ConnectionContext { get }
    var peer: String { get }
    var isTLS: Bool { get }
    /// The request is a call of gRPC.
    var isCall: Bool { get }

    /// Sends a head without content.
    ///
    /// - Parameter write: Appends it, up to the fields of the connection and the empty line.
    func send(_ write: (inout ByteBuffer) -> Void)
    func send(_ problem: ProblemAnswer)
    /// Answers a call of gRPC: sends a message, with its prefix, and the status that the call succeeded.
    func send(message: ByteBuffer)

    /// When it passes, ``AuthorizationExchange/deadlinePassed()`` is called.
    func setDeadline(_ amount: TimeAmount)
    func clearDeadline()
}

// MARK: - Whose requests engines ask about

/// The clients that engines have asked about, for one worker under one configuration.
///
/// One cache for each connection would be of little use: a connection of an engine carries requests of many clients. So there are some
/// for all of them. Two bytes of the proof say which one is asked; it compares the whole proof.
final class EngineClients {
    static let count = 64
    fileprivate var caches = Array(repeating: ClientAuthenticationCache(), count: count)

    /// Which of the caches is for the client that sent the request.
    static func place(of head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Int {
        for index in head.section.fields.indices {
            let field = head.section.fields[index]
            switch field.kind {
            case .authorization, .proxyAuthorization:
                let value = field.value
                guard value.count >= 2 else { return 0 }
                let (last, other) = (Int(bytes[value.upperBound - 1]), Int(bytes[value.upperBound - 2]))
                return (last + 31 * other) % count
            default: break
            }
        }
        return 0
    }
}

// MARK: - What an engine is handed

/// An engine as the data plane answers it under one configuration.
final class AuthzClient: Sendable {
    /// Its place among the engines of its configuration.
    let number: Int
    let plan: EnginePlan
    let proof: EngineProof
    let mark: GenerationMark
    /// The beginning of `Vary`, which the fields of the route follow.
    let vary: String

    init(number: Int, _ plan: EnginePlan, authenticate: @escaping @Sendable ([UInt8]) -> [UInt8]) {
        self.number = number
        self.plan = plan
        proof = EngineProof(plan)
        vary = "Vary: " + OriginalRequest.varyingFields(of: plan.contract).joined(separator: ", ")
        mark = GenerationMark(engine: plan.name, authenticate: authenticate)
    }
}

/// What an engine is handed for one generation of a credential on one route. Made once.
final class EngineAnswer {
    /// ``AuthzClient/number``
    let engine: Int
    /// The fields as they are sent in HTTP/1, each with its CRLF: all but `Date` and, unless it is never kept, what says how long the
    /// answer may be.
    fileprivate let lines: SecretBytes
    fileprivate let isNeverKept: Bool
    /// The answer to a gRPC call. Made for the first call.
    fileprivate private(set) lazy var message = CheckResponse.ok(fields, removing: removed)
    /// The audit log knows that the engine was handed this generation.
    fileprivate var isNoted = false

    private let fields: [Injection.Field]
    /// The client's own fields that must not reach the upstream, and that no field of the answer replaces. In lower case.
    private let removed: [String]

    /// - Parameter source: The source of the credential.
    /// - Returns: nil if the credential is not sent only in header fields.
    fileprivate init?(_ route: CredentialedRoute, from source: any CredentialSource, for engine: AuthzClient) {
        guard let credential = route.credential, !credential.injection.fields.isEmpty,
            !credential.injection.hasSecretTarget
        else { return nil }
        self.engine = engine.number
        let plan = route.state.route.plan
        var fields = credential.injection.fields + Self.fields(of: plan, beside: credential.injection)
        // A credential that stays has none: another call would bring the same.
        if source.isRenewable || source.rejections != nil {
            let mark = engine.mark.value(of: credential, from: source)
            fields.append(Injection.Field(name: EnginePlan.generationField, value: Secret(mark)))
        }
        self.fields = fields
        let replaced = Set(fields.map { $0.name.lowercased() })
        let own = ["Authorization", "Proxy-Authorization"] + EnginePlan.ownFields
        removed = (own + plan.headers.remove).map { $0.lowercased() }.filter { !replaced.contains($0) }
        var lines = fields.flatMap { $0.line.withValue { $0 } }
        if case .envoy = engine.plan.contract {
            lines += Array("X-Envoy-Auth-Headers-To-Remove: \(removed.joined(separator: ", "))\r\n".utf8)
        }
        isNeverKept = engine.plan.cache == nil
        lines += Array("Content-Length: 0\r\n\(isNeverKept ? "Cache-Control: no-store\r\n" : "")".utf8)
        self.lines = SecretBytes(lines)
    }

    /// What the route adds besides its credential.
    private static func fields(of plan: RoutePlan, beside injection: Injection) -> [Injection.Field] {
        let own = Set(injection.fields.map { FieldSyntax.slot($0.name) })
        let user = plan.asUser.map { [Injection.Field(name: $0.field.name, value: Secret($0.id))] } ?? []
        return user + plan.headers.set.filter { !own.contains(FieldSyntax.slot($0.name)) }
    }
}

extension CredentialedRoute {
    /// The answer for this engine, made once.
    ///
    /// - Returns: nil if the credential is not sent only in header fields.
    fileprivate func answer(to engine: AuthzClient, from source: any CredentialSource) -> EngineAnswer? {
        if let answer = engineAnswer(of: engine.number) { return answer }
        guard let answer = EngineAnswer(self, from: source, for: engine) else { return nil }
        keep(answer)
        return answer
    }
}
