import Crypto
import GatewayEvents
import GatewayHTTP
import GatewayTokens
import Logging
import Synchronization

/// Answers in the place of authorization servers whose logins are captured: exchanges the codes of clients, and gives them phantoms.
///
/// Calls to the authorization server are the keeper's, but for the exchange of a code. Nothing that a client presents as a refresh
/// token leaves the gateway.
final class CaptureDesk: CaptureControl {
    struct Parts: Sendable {
        /// The keeper of the credential's token; the problem says why there is none.
        let keeper: @Sendable (_ credential: String) -> Result<TokenKeeper, GatewayProblem>
        let store: CaptureStore
        /// Digests what identifies an account, with a key: it can be guessed.
        let digest: @Sendable ([UInt8]) -> [UInt8]
        let audit: any AuditLog
        let onAuditFailure: AuditPlan.OnFailure
        let clock: any GatewayClock
        let logger: Logger
    }

    /// How long a client waits for a token that has to be renewed. Less than what the exchange waits for this answer.
    private static let renewalLimit: Duration = .seconds(20)

    private let parts: Parts
    /// How many codes a client may send: each is a call to the authorization server, and rows of the audit log.
    private let limits = Mutex(VendingLimits())

    init(parts: Parts) { self.parts = parts }

    func admits(_ phantom: [UInt8], of client: String?, to credential: CapturedCredential) -> Bool {
        let digest = Self.sha256(phantom)
        return parts.store.read { $0.admits(digest, of: client, to: credential.key) }
    }

    func answer(_ message: CapturedMessage, _ done: @escaping @Sendable (OAuthAnswer) -> Void) {
        Task { done(await self.answer(message)) }
    }

    private func answer(_ message: CapturedMessage) async -> OAuthAnswer {
        do throws(Refused) {
            let keeper = try keeper(of: message)
            guard let login = keeper.grant.capture, let flow = keeper.login else {
                throw .gone(message.credential.name)
            }
            switch try Self.request(in: message, of: login) {
            case .exchange(let form): return try await exchange(form, of: message, login, flow, keeper)
            case .refresh(let token): return try await refresh(token, of: message, keeper)
            case .revoke(let token): return await revoke(token, of: message, keeper)
            }
        } catch {
            if let reason = error.reason { await recordFailure(reason, error.code, of: message) }
            return error.answer
        }
    }

    /// Why a client is refused.
    private struct Refused: Error {
        let answer: OAuthAnswer
        /// For the audit log; nil for what is not recorded: it spends nothing, and any program can ask for it without end.
        var reason: String?
        /// From the allow-list.
        var code: String?

        init(_ refusal: CaptureRefusal, isRecorded: Bool = false) {
            answer = refusal.answer
            reason = isRecorded ? refusal.reason : nil
        }

        init(_ answer: OAuthAnswer, reason: String? = nil, code: String? = nil) {
            (self.answer, self.reason, self.code) = (answer, reason, code)
        }

        static func unavailable(_ problem: GatewayProblem, reason: String? = nil) -> Refused {
            let answer = OAuthAnswer(
                error: "temporarily_unavailable",
                problem.withoutNames.detail,
                status: problem.status >= 500 ? problem.status : 503
            )
            return Refused(answer, reason: reason, code: problem.cause?.code)
        }

        static func gone(_ credential: String) -> Refused {
            unavailable(GatewayProblem(.draining, "\(credential) was replaced meanwhile."))
        }
    }

    private func keeper(of message: CapturedMessage) throws(Refused) -> TokenKeeper {
        switch parts.keeper(message.credential.name) {
        case .failure(let problem): throw .unavailable(problem)
        // A reload may have come while the body was read.
        case .success(let keeper) where keeper.key != message.credential.key: throw .gone(message.credential.name)
        case .success(let keeper): return keeper
        }
    }

    private static func request(in message: CapturedMessage, of login: any CapturableLogin) throws(Refused)
        -> CapturedRequest
    {
        let authorization = message.authorization?.withValue(\.self)
        let body = message.body.withValue(\.self)
        do throws(CaptureRefusal) {
            return try CapturedRequest(
                at: message.endpoint,
                body: body,
                authorization: authorization,
                clientID: login.clientID
            )
        } catch {
            throw Refused(error)
        }
    }

    // MARK: A code

    private func exchange(
        _ form: [TokenRequest.Parameter],
        of message: CapturedMessage,
        _ login: any CapturableLogin,
        _ flow: any LoginFlow,
        _ keeper: TokenKeeper
    ) async throws(Refused) -> OAuthAnswer {
        let (key, client) = (message.credential.key, message.demand.client)
        if let problem = keeper.lockedProblem { throw .unavailable(problem) }
        let now = parts.clock.now().monotonic
        if let problem = limits.withLock({ $0.enter(client ?? "", waits: false, at: now) }) {
            throw .unavailable(problem)
        }
        do throws(CaptureRefusal) {
            try parts.store.note { logins throws(CaptureRefusal) in try logins.begin(exchangeFor: key, by: client) }
        } catch {
            throw Refused(error)
        }
        defer { parts.store.note { $0.end(exchangeFor: key) } }
        if let error = await parts.audit.refusal(
            recording: event(.loginStarted, of: message, ["by": "capture"]),
            parts.onAuditFailure
        ) {
            throw .unavailable(GatewayProblem(.auditUnavailable, "The login cannot be recorded: \(error.reason)."))
        }
        let (document, token) = try await self.token(for: form, login, flow, keeper)
        let account = CapturedAnswer.account(in: document).map(parts.digest)
        let phantom = Phantom(sha256: Self.sha256)
        let answer: OAuthAnswer
        do throws(CaptureRefusal) {
            try parts.store.read { logins throws(CaptureRefusal) in try logins.check(account, of: key, for: client) }
            answer = try CapturedAnswer.exchange(document, token, as: phantom)
        } catch {
            throw Refused(error, isRecorded: true)
        }
        if case .failure(let problem) = await keeper.logIn(with: token) {
            throw .unavailable(problem, reason: "not_taken")
        }
        // An operator may have locked it meanwhile, which ends all phantoms.
        if let problem = keeper.lockedProblem { throw .unavailable(problem, reason: "locked") }
        let digests = phantom.digests(sha256: Self.sha256)
        if let error = await parts.audit.refusal(recording: event(.phantomsIssued, of: message), parts.onAuditFailure) {
            throw .unavailable(GatewayProblem(.auditUnavailable, "The login cannot be recorded: \(error.reason)."))
        }
        let isAdded = await parts.store.change { logins in
            logins.add(CapturedLogins.Login(client: client, digests: digests), account: account, to: key)
        }
        guard isAdded else { throw Refused(.ended, isRecorded: true) }
        return answer
    }

    private func token(
        for form: [TokenRequest.Parameter],
        _ login: any CapturableLogin,
        _ flow: any LoginFlow,
        _ keeper: TokenKeeper
    ) async throws(Refused) -> (JSONValue, TokenSet) {
        let request: TokenRequest
        switch login.exchange(form, nonce: TokenKeeper.randomNonce(), at: parts.clock.now()) {
        case .request(let made): request = made
        case .impossible(let failure): throw .unavailable(failure.problem, reason: "not_asked")
        case .run, .token:
            throw .unavailable(GatewayProblem(.internalError, "Only a server exchanges codes."), reason: "not_asked")
        }
        let reply: TokenReply
        switch await keeper.endpoint.send(request, deadline: TokenKeeper.callDeadline) {
        case .success(let found): reply = found
        case .failure(let failure):
            let problem = TokenFailure(explaining: failure, of: request, credential: keeper.name).problem
            throw .unavailable(problem, reason: "no_answer")
        }
        switch flow.interpret(reply, at: parts.clock.now()) {
        case .success(let token):
            guard let document = reply.document else { throw Refused(.answer("is not JSON"), isRecorded: true) }
            return (document, token)
        case .failure(let failure):
            // The client acts by the code alone, as if the server had answered it.
            let code = OAuthErrorCode.allowListed(reply.document?["error"]?.string)
            guard let code, code != "other" else { throw .unavailable(failure.problem, reason: "exchange_refused") }
            let answer = OAuthAnswer(error: code, "The authorization server refused the code.")
            throw Refused(answer, reason: "exchange_refused", code: code)
        }
    }

    // MARK: A phantom

    private func refresh(
        _ token: Secret,
        of message: CapturedMessage,
        _ keeper: TokenKeeper
    ) async throws(Refused) -> OAuthAnswer {
        guard Phantom.isRefresh(token) else { throw Refused(.unknownToken) }
        let phantom = Phantom(refresh: token, sha256: Self.sha256)
        try requireKnown(phantom, of: message)
        switch await keeper.remainder(for: message.demand, within: Self.renewalLimit) {
        case .failure(let problem):
            switch problem.kind {
            // A person has to log in, which the client asks for after this error.
            case .loginRequired, .reauthorizationRequired: throw Refused(.unknownToken)
            default: throw .unavailable(problem)
            }
        case .success(let left):
            // It may have been revoked meanwhile.
            try requireKnown(phantom, of: message)
            do throws(CaptureRefusal) {
                return try CapturedAnswer.refresh(phantom, left: left)
            } catch {
                throw Refused(error)
            }
        }
    }

    private func requireKnown(_ phantom: Phantom, of message: CapturedMessage) throws(Refused) {
        let digest = phantom.digests(sha256: Self.sha256).refresh
        let isKnown = parts.store.read {
            $0.refreshes(digest, of: message.demand.client, for: message.credential.key)
        }
        guard isKnown else { throw Refused(.unknownToken) }
    }

    /// A token that is unknown is as good as revoked (RFC 7009 section 2.2).
    private func revoke(_ token: Secret, of message: CapturedMessage, _ keeper: TokenKeeper) async -> OAuthAnswer {
        let digest = token.withValue { Self.sha256(Array($0.utf8)) }
        let isRevoked = await parts.store.change(isEnd: true) { logins in
            logins.revoke(digest, of: message.demand.client, for: message.credential.key)
        }
        if isRevoked { _ = await parts.audit.recordSoon(event(.phantomsRevoked, of: message)) }
        return OAuthAnswer(Secret("{}\n"))
    }

    // MARK: Audit log

    private func recordFailure(_ reason: String, _ code: String?, of message: CapturedMessage) async {
        var event = event(.loginFailed, of: message, ["by": "capture", "reason": reason])
        event.outcome = .failed
        event.errorCode = code ?? ProblemKind.loginFailed.rawValue
        parts.logger.warning(
            "Captured login failed",
            metadata: [
                "gateway.credential": "\(message.credential.name)", "gateway.reason": "\(reason)",
                "gateway.client": "\(message.demand.client ?? "")",
            ]
        )
        _ = await parts.audit.recordSoon(event)
    }

    private func event(
        _ name: TokenEvent.Name,
        of message: CapturedMessage,
        _ detail: [String: String] = [:]
    ) -> TokenEvent {
        TokenEvent(
            at: parts.clock.now().wall,
            name: name,
            credential: message.credential.name,
            trigger: .demand,
            demand: message.demand,
            detail: detail
        )
    }

    @Sendable private static func sha256(_ bytes: [UInt8]) -> [UInt8] { Array(SHA256.hash(data: bytes)) }
}
