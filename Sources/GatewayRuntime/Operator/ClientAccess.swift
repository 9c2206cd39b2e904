import GatewayAdmin
import GatewayCore
import GatewayFiles
import GatewayLocalAuthority

/// What a program of this machine needs to use a gateway as its proxy.
struct ClientAccess: Sendable {
    let endpoint: ProxyEndpoint
    let proof: ClientEnvironment.Proof?
    let trust: ClientEnvironment.Trust?
    /// Those that routes lead to.
    let hosts: [String]

    init(
        _ endpoint: ProxyEndpoint,
        proof: ClientEnvironment.Proof?,
        hosts: [String],
        stateDirectory: String
    ) throws(CommandFailure) {
        self.endpoint = endpoint
        self.proof = proof
        self.hosts = hosts
        let earlier = ClientEnvironment.earlierBundles { Console.environment($0) }
        do throws(StateError) {
            trust = try ClientTrustFiles(stateDirectory: stateDirectory).write(adding: earlier)
        } catch {
            throw CommandFailure(.failed, "\(error.description); run this as the gateway's user")
        }
    }

    /// Of the gateway that runs with this configuration.
    static func ofRunningGateway(
        configuration: String,
        source: ClientTokenSource,
        advice: String
    ) async throws(CommandFailure) -> ClientAccess {
        let settings = try OperatorSettings(running: configuration)
        let plan = settings.plan
        // Another program at the admin address of a gateway that does not run would get the token.
        guard StateDirectory.isHeld(plan.stateDirectory) else {
            throw CommandFailure(
                .unreachable,
                "no gateway runs with \(LogText.clean(configuration)); start it with: \(GatewayCommand.line("run"))\(advice)"
            )
        }
        let overview = try await settings.client.ask(AdminAPI.overview)
        switch overview.proxy.choice {
        case .none(let reason): throw CommandFailure(.configuration, reason)
        case .endpoint(let endpoint):
            let proof = try source.proof(
                configuration: configuration,
                clients: overview.clients,
                isNeeded: endpoint.requiresClientToken
            )
            return try ClientAccess(
                endpoint,
                proof: proof,
                hosts: overview.proxy.hosts,
                stateDirectory: plan.stateDirectory
            )
        }
    }

    var variables: [ClientEnvironment.Variable] {
        ClientEnvironment(endpoint, proof: proof, trust: trust, hosts: hosts) { Console.environment($0) }.variables
    }
}
