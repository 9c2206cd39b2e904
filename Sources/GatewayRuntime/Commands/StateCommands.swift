import GatewayAdmin
import GatewayAudit
import GatewayCore
import GatewayFiles
import Logging

/// What `state …` does: copies the state of a gateway and puts a copy back.
package struct StateCommands: Sendable {
    private let settings: OperatorSettings
    private let plan: OperatorPlan
    private let asJSON: Bool

    /// - Parameter configuration: The path of `gateway.yaml`, for the gateway's files.
    package init(configuration: String, asJSON: Bool) throws(CommandFailure) {
        settings = try OperatorSettings(configuration: configuration)
        plan = settings.plan
        self.asJSON = asJSON
    }

    private var layout: StateLayout { StateLayout(places: Storage.Places(plan)) }

    /// - Returns: What is for standard output.
    package func backup(to folder: String, includesKeys: Bool) async throws(CommandFailure) -> String {
        let operation = BackupOperation(
            layout: layout,
            folder: folder,
            includesKeys: includesKeys,
            key: try settings.installationKey()
        )
        let manifest = try await operation.run(at: SystemClock().now().wall) { () async throws(CommandFailure) in
            try await note(includesKeys: includesKeys)
        }
        let text = asJSON ? String(decoding: manifest.text, as: UTF8.self) : Self.text(of: manifest, in: folder)
        guard manifest.isAuditVerified else {
            Console.write(text)
            throw CommandFailure(
                .verification,
                "the backup is complete, but the audit log is broken: run authgateway audit verify"
            )
        }
        return text
    }

    /// In the log of the gateway that runs, or in that of the files when none does.
    private func note(includesKeys: Bool) async throws(CommandFailure) {
        let client = settings.client
        do throws(CommandFailure) {
            let body = Array(#"{"keys": \#(includesKeys)}"#.utf8)
            _ = try await client.ask(AdminAPI.noteBackup, body: body)
        } catch {
            guard error.status == .unreachable, !client.isAnswered(error),
                !StateDirectory.isHeld(plan.stateDirectory)
            else { throw error }
            let storage = try await Storage.ofStoppedGateway(Storage.Places(plan))
            let now = SystemClock().now().wall
            let onFailure = plan.audit.onFailure
            let result = await storage.noteBackup(includesKeys: includesKeys, onFailure: onFailure, at: now)
            AdminToken.remove(in: plan.stateDirectory)
            await storage.close()
            _ = try AdminClient.value(of: result)
        }
    }

    package func restore(from folder: String, mayReplace: Bool) async throws(CommandFailure) -> String {
        let operation = RestoreOperation(
            layout: layout,
            folder: folder,
            mayReplace: mayReplace,
            clock: SystemClock(),
            logger: LogOutput.standardError.logger("authgateway.audit", level: .error)
        )
        let outcome: RestoreOperation.Outcome
        do throws(StateError) {
            outcome = try await operation.run()
        } catch {
            throw CommandFailure(error)
        }
        if let breach = outcome.breach {
            Console.writeError("The audit log was broken when it was copied: \(LogText.clean(breach))\n")
        }
        return asJSON ? try JSONText.pretty(RestoreReport(outcome)) : text(of: outcome)
    }

    private struct RestoreReport: Encodable {
        let madeAt: String
        let instance: String
        let tokens: Int
        let refreshTokens: Int
        let replaced: String?

        init(_ outcome: RestoreOperation.Outcome) {
            madeAt = outcome.manifest.madeAt
            instance = outcome.manifest.instance
            tokens = outcome.manifest.tokens ?? 0
            refreshTokens = outcome.marked
            replaced = outcome.replaced
        }
    }

    private static func text(of manifest: BackupManifest, in folder: String) -> String {
        let tokens = manifest.tokens.map { "\($0) \($0 == 1 ? "token" : "tokens")" } ?? "no token store"
        let keys =
            manifest.includesKeys
            ? "It has the keys: whoever reads it can use the tokens.\n"
            : "It has no keys: keep token.key\(manifest.hasStoreKey ? " and token.key.encryption" : "") elsewhere.\n"
        return "Backed up to \(LogText.clean(folder)): the audit log up to row \(manifest.lastAuditRow), \(tokens).\n"
            + keys
    }

    private func text(of outcome: RestoreOperation.Outcome) -> String {
        let manifest = outcome.manifest
        var text =
            "Restored \(LogText.clean(plan.stateDirectory)) from the backup of \(LogText.clean(manifest.madeAt)): "
        text += "the audit log up to row \(manifest.lastAuditRow), \(manifest.tokens ?? 0) tokens.\n"
        if let replaced = outcome.replaced { text += "What was there before is in \(LogText.clean(replaced)).\n" }
        if !outcome.locked.isEmpty {
            let names = outcome.locked.sorted().prefix(20).map(LogText.clean).joined(separator: ", ")
            let more = outcome.locked.count - 20
            text += "Locked, as before or in the backup: \(names)\(more > 0 ? " and \(more) more" : "").\n"
        }
        guard outcome.marked > 0 else { return text }
        return text + """
            \(outcome.marked) of them have a refresh token, which may have been spent since. Those that are valid once are not
            sent: such credentials need a login when their token ends. If nothing has used them since the backup:
              authgateway token refresh NAME

            """
    }
}
