import GatewayEvents
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Synchronization

@testable import GatewayProxy

/// A credential that an operator takes away.
final class LockableSource: CredentialSource {
    let name = "lockable"
    let strategy = "oauth2_client_credentials"
    let isRenewable = true
    let grantKey: CredentialKey?
    private let token: String
    private let state: Mutex<(credential: Credential, isLocked: Bool)>

    /// - Parameter token: With what each token begins. The number of its generation follows.
    init(_ grant: String = "a", token: String = "token-") {
        grantKey = CredentialKey(digest: grant)
        self.token = token
        state = Mutex((Self.credential(1, token), false))
    }

    private static func credential(_ generation: Int, _ token: String) -> Credential {
        let injection = Injection.authorization(scheme: "Bearer", Secret("\(token)\(generation)"))
        return Credential(name: "lockable", generation: generation, injection: injection)
    }

    func current(at now: MonotonicTime) -> CredentialAnswer {
        state.withLock { state in
            state.isLocked ? .unavailable(GatewayProblem(.locked, "Locked.")) : .ready(state.credential)
        }
    }

    func lock() {
        state.withLock { state in
            state.credential.withdraw()
            state.isLocked = true
        }
    }

    func renew() {
        state.withLock { state in
            state.credential.withdraw()
            state.credential = Self.credential(state.credential.generation + 1, token)
        }
    }

    func wait(
        for demand: CredentialRequest,
        _ done: @escaping @Sendable (Result<Credential, GatewayProblem>) -> Void
    ) -> CredentialTicket { CredentialTicket(id: 1) }

    func cancel(_ ticket: CredentialTicket) {}
    func rejected(generation: Int, by demand: CredentialRequest) {}
    func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest) {}
}

extension ProxyFixture {
    /// - Returns: The workers that did not answer.
    func withdraw(_ source: any CredentialSource) throws -> [Int] {
        try silentWorkers { await $0.withdraw([source]) }
    }

    /// Serves another configuration on the same listener.
    ///
    /// - Returns: The workers that did not answer.
    func reload(_ change: (inout ProxyConfiguration) -> Void) throws -> [Int] {
        var changed = configuration
        change(&changed)
        let (next, listener) = (changed, listener)
        return try silentWorkers { server in
            // What cannot be prepared is no answer.
            guard let prepared = try? await server.prepare(next, listeners: [listener]) else { return [-1] }
            return await server.apply(prepared)
        }
    }

    private func silentWorkers(_ ask: @escaping @Sendable (ProxyServer) async -> [Int]) throws -> [Int] {
        let answer = Answer()
        Task { [server] in
            let silent = await ask(server)
            answer.silent.withLock { $0 = silent }
        }
        try blockUntil("the workers answer") { answer.silent.withLock { $0 != nil } }
        return answer.silent.withLock { $0 } ?? []
    }
}

private final class Answer: Sendable {
    let silent = Mutex<[Int]?>(nil)
}
