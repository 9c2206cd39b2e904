import Foundation
import GatewayAdmin
import GatewayCore
import GatewayFiles
import GatewayLocalAuthority

/// What `ca …` does with the local authority itself: makes, shows and replaces it, and says who trusts it.
package struct AuthorityCommands: Sendable {
    private let configuration: String
    private let settings: OperatorSettings
    private var plan: OperatorPlan { settings.plan }

    /// - Parameter configuration: The path of `gateway.yaml`, for the state directory.
    package init(configuration: String) throws(CommandFailure) {
        self.configuration = configuration
        settings = try OperatorSettings(running: configuration)
    }

    /// - Parameter showsPath: The file's name instead of its content.
    /// - Returns: The certificates to trust, in PEM.
    package func show(path showsPath: Bool) throws(CommandFailure) -> String {
        let path = LocalAuthority.bundlePath(in: plan.stateDirectory)
        do throws(BoundedFile.Failure) {
            let content = try BoundedFile.read(path, limit: AuthorityRoots.limit).bytes
            return showsPath ? path + "\n" : String(decoding: content, as: UTF8.self)
        } catch {
            throw CommandFailure(.failed, absence(of: path, error))
        }
    }

    private func absence(of path: String, _ failure: BoundedFile.Failure) -> String {
        guard failure != .missing else {
            return "there is no local authority in \(plan.stateDirectory); a gateway makes one when it starts with"
                + " intercept: true (listeners.proxy)"
        }
        let reason = "the certificates of the local authority, \(path), cannot be read: \(failure.message)"
        guard failure == .forbidden else { return reason }
        let advice = "\(reason); run this as the gateway's user"
        // With TLS this is a socket in the state directory, which other users cannot reach either.
        guard case .tcp(let host, let port) = plan.admin.address else { return advice }
        let proof = plan.admin.requiresToken ? "-H \"Authorization: Bearer ADMIN_TOKEN\" " : ""
        return "\(advice), or ask the running gateway:\n  curl \(proof)http://\(Origin.urlHost(host)):\(port)/ca.pem"
    }

    /// Makes the authority, or what it lacks, before the gateway starts.
    package func create() async throws(CommandFailure) -> String {
        guard !StateDirectory.isHeld(plan.stateDirectory) else {
            throw CommandFailure(
                .failed,
                "a gateway uses \(plan.stateDirectory): it has made the authority; see authgateway ca show"
            )
        }
        let made = try await alone { authority, plan in await authority.coverInTime(plan) }
        let path = LocalAuthority.bundlePath(in: plan.stateDirectory)
        guard !made.isEmpty else { return "The local authority is complete: \(path)\n" }
        return "The local authority can sign for \(Self.list(made)). Programs have to trust \(path)\n" + Self.advice
    }

    /// Makes a new authority in the place of the present one.
    package func rotate() async throws(CommandFailure) -> String {
        let report: AuthorityRotationReport
        if StateDirectory.isHeld(plan.stateDirectory) {
            report = try await settings.client.ask(AdminAPI.rotateAuthority)
        } else {
            let scopes = try await alone { authority, plan in await authority.rotateInTime(plan) }
            report = AuthorityRotationReport(scopes: scopes, file: LocalAuthority.bundlePath(in: plan.stateDirectory))
        }
        return
            "The local authority is new, for \(Self.list(report.scopes)). Nothing that trusted the old one trusts it:\n"
            + "  \(LogText.clean(report.file))\n" + Self.advice
            + "What authgateway exec and env gave to programs is written anew already.\n"
    }

    /// Who trusts it.
    package func status() throws(CommandFailure) -> String {
        let trust: AuthorityTrust
        do throws(StateError) {
            trust = try TrustProbe(stateDirectory: plan.stateDirectory).look()
        } catch {
            throw CommandFailure(.failed, error.description)
        }
        guard !trust.roots.isEmpty else {
            throw CommandFailure(
                .failed,
                "there is no local authority in \(plan.stateDirectory); make it with: authgateway ca create"
            )
        }
        var roots = TextTable("CERTIFICATE", "ENDS", "SHA-256")
        for root in trust.roots {
            roots.add(root.name, String(root.endsAt.rfc3339.prefix(10)), String(root.fingerprint.prefix(16)))
        }
        var places = TextTable("WHERE", "WHAT", "STATE")
        for place in trust.places { places.add(place.kind.rawValue, place.name, trust.state(of: place)) }
        return roots.text(.current) + "\n" + places.text(.current)
    }

    private static let advice = """
        Make this machine trust it:  sudo authgateway ca install
        Or one program:              authgateway exec -- PROGRAM

        """

    private static func list(_ scopes: [String]) -> String {
        scopes.map { $0 == LocalAuthorityPlan.anyHost ? "any host" : LogText.clean($0) }.joined(separator: ", ")
    }

    /// On the files of a gateway that does not run. The lock of the state directory is held meanwhile.
    private func alone(
        _ work: (LocalAuthority, Plan) async -> Result<[String], StateError>
    ) async throws(CommandFailure) -> [String] {
        let plan = try ConfigurationFile(path: configuration, consequence: "nothing was changed").plan
        guard !plan.interceptedHosts.isEmpty else {
            let reason =
                plan.listeners.contains(where: \.intercepts)
                ? "no route leads to an https:// upstream" : "no listener has intercept: true (listeners.proxy)"
            throw CommandFailure(.configuration, "there is nothing to sign for: \(reason)")
        }
        let storage = try await Storage.ofStoppedGateway(Storage.Places(plan))
        let result = await work(storage.authority, plan)
        AdminToken.remove(in: plan.stateDirectory)
        await storage.close()
        switch result {
        case .success(let scopes): return scopes
        case .failure(let error): throw CommandFailure(.failed, error.description)
        }
    }
}
