import Foundation
import GatewayAdmin
import GatewayCore

/// What `key …` does: asks the running gateway, or works on its files when none runs.
package struct KeyCommands: Sendable {
    private let settings: OperatorSettings
    private let client: AdminClient
    private let asJSON: Bool

    /// - Parameter configuration: The path of `gateway.yaml`, for the admin address and the gateway's files.
    package init(configuration: String, asJSON: Bool) throws(CommandFailure) {
        settings = try OperatorSettings(running: configuration)
        client = settings.client
        self.asJSON = asJSON
    }

    /// - Returns: What is for standard output.
    package func rotate() async throws(CommandFailure) -> String {
        let report: KeyRotationReport
        do throws(CommandFailure) {
            report = try await client.ask(AdminAPI.rotateKey)
        } catch {
            guard error.status == .unreachable, !client.isAnswered(error) else { throw error }
            report = try await rotateAlone(after: error)
        }
        if asJSON { return try JSONText.pretty(report) }
        return "\(report.tokens) \(report.tokens == 1 ? "token is" : "tokens are") encrypted anew. The new key is "
            + "\(LogText.clean(report.file)): back it up beside the installation's key.\n"
    }

    /// The lock of the state directory is held meanwhile, so that no gateway starts on what is being changed.
    private func rotateAlone(after failure: CommandFailure) async throws(CommandFailure) -> KeyRotationReport {
        if let problem = settings.problem { throw problem }
        let plan = settings.plan
        guard plan.tokens.store == .sqlite else { throw CommandFailure(.failed, KeyRotation.noStore.detail) }
        guard FileManager.default.fileExists(atPath: plan.tokens.path) else {
            throw CommandFailure(
                .unreachable,
                "\(failure.description)\nand there is no token store \(plan.tokens.path) to encrypt anew"
            )
        }
        let storage = try await Storage.ofStoppedGateway(Storage.Places(plan))
        Console.writeError("No gateway runs here; this works on its files in \(LogText.clean(plan.stateDirectory)).\n")
        let result = await storage.keyRotation?.rotate() ?? .failure(KeyRotation.noStore)
        await storage.close()
        return try AdminClient.value(of: result)
    }
}
