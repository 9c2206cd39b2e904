import GatewayApp
import GatewayFiles
import GatewayProxy
import GatewayTokens
import Glibc
import NIOCore

/// Whether an address can be listened on: it is bound and released at once, and no client can connect meanwhile.
struct ListenerProbe: Sendable {
    /// What is known of the running gateway.
    let running: RunningGatewayProbe.Answer

    func finding(of listener: ListenerPlan) -> DoctorFinding {
        let name = listener.address.name
        return finding(
            of: listener.address,
            listener.engine == nil ? "listeners.proxy" : "listeners.authz",
            isOwn: running.listeners?.contains(name)
        )
    }

    func finding(of admin: AdminPlan) -> DoctorFinding {
        // It has answered there.
        finding(of: admin.address, "listeners.admin", isOwn: running.tokens != nil)
    }

    /// - Parameter isOwn: nil when the running gateway did not say.
    private func finding(of address: ListenerPlan.Address, _ key: String, isOwn: Bool?) -> DoctorFinding {
        var observation = isOwn == true ? .own : Self.look(at: address)
        if observation == .taken, isOwn == nil, running.tokens != nil { observation = .own }
        return ListenerRule.finding(of: address, key, observation, isGatewayRunning: running.tokens != nil)
    }

    private static func look(at address: ListenerPlan.Address) -> ListenerRule.Observation {
        switch address {
        case .unix(let path, _):
            switch UnixSocket.occupation(of: path) {
            case .free: .free
            case .taken: .taken
            case .unusable(let reason): .unusable(reason)
            }
        case .tcp(let host, let port): look(at: host, port)
        }
    }

    private static func look(at host: String, _ port: Int) -> ListenerRule.Observation {
        // An address literal; a name such as localhost is looked up in the hosts file.
        guard let address = try? SocketAddress.makeAddressResolvingHost(host, port: port) else {
            return .foreignAddress
        }
        let descriptor = socket(address.protocol == .inet6 ? AF_INET6 : AF_INET, streamType, 0)
        guard descriptor >= 0 else { return .unusable(SystemError.text()) }
        defer { close(descriptor) }
        var isOn: Int32 = 1
        _ = unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<Int32>.size))
        let status = unsafe address.withSockAddr { pointer, size in unsafe bind(descriptor, pointer, socklen_t(size)) }
        return status == 0 ? .free : observation(of: errno)
    }

    private static let streamType = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)

    private static func observation(of code: Int32) -> ListenerRule.Observation {
        switch code {
        case EADDRINUSE: .taken
        case EACCES, EPERM: .forbidden
        case EADDRNOTAVAIL: .foreignAddress
        default: .unusable(SystemError.text(code))
        }
    }
}

/// Asks the gateway that uses the configuration, if one runs, for what this process must not find out by itself.
struct RunningGatewayProbe: Sendable {
    struct Answer: Sendable {
        var observation: GatewayRule.Observation
        /// The tokens of the running gateway, by the names of the plan; nil if none answers.
        var tokens: [String: TokenStatus]?
        /// The names of its proxy listeners; nil when it did not say.
        var listeners: Set<String>?
        /// The variables of its sandbox; nil without one.
        var sandbox: [String: String]?

        /// A process holds the files, or may: nothing of them is locked or written beside it.
        var isRunning: Bool { observation != .stopped }
    }

    let plan: Plan

    func ask(within limit: Duration) async -> Answer {
        let occupation = StateDirectory.occupation(of: plan.stateDirectory)
        guard occupation != .free else { return Answer(observation: .stopped) }
        let plan = plan
        let answer =
            await Deadline.value(within: limit) { await Self.ask(plan) }
            ?? Answer(observation: .silent("its admin listener does not answer in time"))
        // Nothing says that there is a process.
        if occupation == .hidden, answer.tokens == nil { return Answer(observation: .hidden) }
        return answer
    }

    private static func ask(_ plan: Plan) async -> Answer {
        let client = AdminClient(plan.admin, stateDirectory: plan.stateDirectory)
        do throws(CommandFailure) {
            let readiness = try await client.readiness()
            let tokens = try await tokens(plan, client)
            // Needs the admin token, which another user than the gateway's does not have.
            let served = try? await client.ask(AdminAPI.operations.plan)
            let differences = served?.changes(to: plan).filter { $0.kind != .kept }.map(\.path)
            let listeners = served.map {
                Set(($0.digest.summary.listeners + ($0.digest.summary.authz ?? []).map(\.listener)).map(\.name))
            }
            return Answer(
                observation: .running(readiness, differences: differences, hasSandbox: served?.sandbox != nil),
                tokens: tokens,
                listeners: listeners,
                sandbox: served?.sandbox
            )
        } catch {
            return Answer(observation: .silent(error.description))
        }
    }

    /// Credentials that share a token are listed under the name of one of them.
    private static func tokens(
        _ plan: Plan,
        _ client: AdminClient
    ) async throws(CommandFailure) -> [String: TokenStatus] {
        var tokens: [String: TokenStatus] = [:]
        for status in try await client.ask(AdminAPI.operations.tokens) { tokens[status.credential] = status }
        for credential in plan.credentials where tokens[credential.name] == nil {
            guard case .token = credential.strategy.behavior else { continue }
            tokens[credential.name] = try? await client.ask(AdminAPI.operations.token, of: credential.name)
        }
        return tokens
    }
}
