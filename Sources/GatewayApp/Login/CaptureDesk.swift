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
    private let limits = Mutex(
        VendingLimits(
            refusing: GatewayProblem(
                .clientLimitReached,
                "This client sends too many authorization codes. Log in again in a few seconds."
            )
        )
    )

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
            case .exchange(let form):
                do throws(Refused) {
                    return try await exchange(form, of: message, login, flow, keeper)
                } catch {
                    if let reason = error.reason {
                        let events = events(of: message)
                        await events.failed(of: keeper, reason: reason, code: error.code, said: error.said)
                    }
                    throw error
                }
            case .refresh(let token): return try await refresh(token, of: message, keeper)
            case .revoke(let token): return await revoke(token, of: message, keeper)
            }
        } catch {
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
        var said: AuthorityError?

        init(_ refusal: CaptureRefusal, isRecorded: Bool = false) {
            answer = refusal.answer
            reason = isRecorded ? refusal.reason : nil
        }

        init(_ answer: OAuthAnswer, reason: String? = nil, code: String? = nil, said: AuthorityError? = nil) {
            (self.answer, self.reason, self.code, self.said) = (answer, reason, code, said)
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
            try parts.store.changeInMemory { logins throws(CaptureRefusal) in
                try logins.begin(exchangeFor: key, by: client)
            }
        } catch {
            throw Refused(error)
        }
        defer { parts.store.changeInMemory { $0.end(exchangeFor: key) } }
        let events = events(of: message)
        if let problem = await events.started(of: keeper, by: "capture") { throw .unavailable(problem) }
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
        if let problem = await events.refusal(recording: events.event(.phantomsIssued, of: keeper)) {
            throw .unavailable(problem)
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
        switch await keeper.exchange(request, of: flow, clock: parts.clock) {
        case .success(let (token, reply)):
            guard let document = reply.document else { throw Refused(.answer("is not JSON"), isRecorded: true) }
            return (document, token)
        case .failure(let failed):
            // The client acts by the code alone, as if the server had answered it.
            let code = OAuthErrorCode.allowListed(failed.said?.code).flatMap { $0 == "other" ? nil : $0 }
            let answer = code.map { OAuthAnswer(error: $0, "The authorization server refused the code.") }
            throw Refused(
                answer ?? Refused.unavailable(failed.problem).answer,
                reason: failed.reason,
                code: code ?? failed.code,
                said: failed.said
            )
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
        if isRevoked { _ = await parts.audit.recordSoon(events(of: message).event(.phantomsRevoked, of: keeper)) }
        return OAuthAnswer(Secret("{}\n"))
    }

    // MARK: Audit log

    private func events(of message: CapturedMessage) -> LoginEvents {
        LoginEvents(
            audit: parts.audit,
            onAuditFailure: parts.onAuditFailure,
            clock: parts.clock,
            logger: parts.logger,
            captured: message.demand
        )
    }

    @Sendable private static func sha256(_ bytes: [UInt8]) -> [UInt8] { Array(SHA256.hash(data: bytes)) }
}
