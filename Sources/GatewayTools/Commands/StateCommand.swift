import ArgumentParser
import GatewayApp
import GatewayConfiguration
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import Logging

struct StateCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "state",
        abstract: "Back up the gateway's state, and restore it.",
        discussion: """
            Examples:
              authgateway state backup /backup/gateway-2026-03-01
              authgateway state restore /backup/gateway-2026-03-01
            """,
        subcommands: [StateBackupCommand.self, StateRestoreCommand.self]
    )
}

struct StateBackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copy audit log, tokens, locks and local CA into a new folder.",
        discussion: """
            Examples:
              authgateway state backup /backup/gateway-2026-03-01
              authgateway state backup /backup/gateway-2026-03-01 --with-keys

            Works while the gateway runs: SQLite copies each database as it is at one
            moment. The chain of the copied audit log is verified. manifest.json lists
            the files with their SHA-256, and is written last.

            Without --with-keys the tokens in it are encrypted and the keys are not in
            it: keep token.key, and token.key.encryption after a key rotate, elsewhere.
            With it, whoever reads the folder can use the tokens. The files of the
            folder `secrets` are in it then, too. Keys from the environment or a
            program are in no backup, and neither is gateway.yaml.

            Needs the installation key. Recorded as state_backed_up.

            Exit codes: 0 done, 1 failed, 2 wrong usage, 3 configuration, 4 the gateway
            does not answer, 5 done, but the audit log is broken.
            """
    )

    @Argument(help: ArgumentHelp("The folder of the backup: a new one, or an empty one.", valueName: "dir"))
    var folder: String

    @Flag(name: .customLong("with-keys"), help: "Copy the keys and the folder `secrets`, too.")
    var withKeys = false

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() async throws(CommandFailure) {
        let settings = try OperatorSettings(configuration: config.runningPath())
        var operation = BackupOperation(
            layout: StateLayout(places: Storage.Places(settings.plan)),
            folder: folder,
            includesKeys: withKeys,
            key: try settings.installationKey()
        )
        let label = "Backing up"
        let manifest = try await ProgressLine.during(label, unless: json.isOn) { (line) async throws(CommandFailure) in
            operation.progress = line
            return try await operation.run(at: SystemClock().now().wall) { () async throws(CommandFailure) in
                try await note(settings)
            }
        }
        Console.write(json.isOn ? String(decoding: manifest.text, as: UTF8.self) : text(of: manifest))
        guard manifest.isAuditVerified else {
            throw CommandFailure(
                .verification,
                "the backup is complete, but the audit log is broken: run authgateway audit verify"
            )
        }
    }

    /// In the log of the gateway that runs, or in that of the files when none does.
    private func note(_ settings: OperatorSettings) async throws(CommandFailure) {
        let client = settings.client
        _ = try await client.reach { () async throws(CommandFailure) in
            try await client.ask(AdminAPI.operations.noteBackup, with: BackupToNote(includesKeys: withKeys))
        } orOffline: { (failure) async throws(CommandFailure) in
            let plan = settings.plan
            guard !StateDirectory.isHeld(plan.stateDirectory) else { throw failure }
            let storage = try await Storage.ofStoppedGateway(Storage.Places(plan))
            let now = SystemClock().now().wall
            let onFailure = plan.audit.onFailure
            let result = await storage.noteBackup(includesKeys: withKeys, onFailure: onFailure, at: now)
            AdminToken.remove(in: plan.stateDirectory)
            await storage.close()
            return try AdminClient.value(of: result)
        }
    }

    private func text(of manifest: BackupManifest) -> String {
        let tokens = manifest.tokens.map { "\($0) \($0 == 1 ? "token" : "tokens")" } ?? "no token store"
        let keys =
            manifest.includesKeys
            ? "It contains the keys: anyone who can read it can use the tokens.\n"
            : "It has no keys: keep token.key\(manifest.hasStoreKey ? " and token.key.encryption" : "") elsewhere.\n"
        return "Backed up to \(LogText.clean(folder)): the audit log up to row \(manifest.lastAuditRow), \(tokens).\n"
            + keys
    }
}

struct StateRestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Replace the gateway's state with a backup.",
        discussion: """
            Examples:
              authgateway state restore /backup/gateway-2026-03-01
              authgateway state restore /backup/gateway-2026-03-01 --replace

            The gateway must not run. The files are compared with the manifest, and the
            databases are opened with the key, before anything is changed. A backup of
            a newer version is refused.

            The state directory must be empty. With --replace, what is there is moved
            to its folder replaced-TIME, and nothing is deleted. For a backup without
            keys, put the key files in their places first; they may be there already.

            Refresh tokens may have been used since the backup. Those that are valid
            once are not sent: the state is rotation_uncertain, and the credential
            needs a login when its token expires. If nothing has used them since the
            backup, use authgateway token refresh NAME. Recorded as state_restored.

            Exit codes: 0 done, 1 failed or refused, 3 configuration.
            """
    )

    @Argument(help: ArgumentHelp("The folder of the backup.", valueName: "dir"))
    var folder: String

    @Flag(help: "Move the state that is there aside.")
    var replace = false

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() async throws(CommandFailure) {
        let plan = try OperatorSettings(configuration: config.path).plan
        var operation = RestoreOperation(
            layout: StateLayout(places: Storage.Places(plan)),
            folder: folder,
            mayReplace: replace,
            clock: SystemClock(),
            logger: LogOutput.standardError.logger("authgateway.audit", level: .error)
        )
        let label = "Restoring"
        let outcome = try await ProgressLine.during(label, unless: json.isOn) { (line) async throws(CommandFailure) in
            operation.progress = line
            do throws(StateError) {
                return try await operation.run()
            } catch {
                throw CommandFailure(error)
            }
        }
        if let breach = outcome.breach {
            Console.writeError("The audit log was broken when it was copied: \(LogText.clean(breach))\n")
        }
        let text = Self.text(of: outcome, in: plan.stateDirectory)
        Console.write(try json.text(of: Report(outcome), or: text))
    }

    private struct Report: Encodable {
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

    private static func text(of outcome: RestoreOperation.Outcome, in stateDirectory: String) -> String {
        let manifest = outcome.manifest
        var text =
            "Restored \(LogText.clean(stateDirectory)) from the backup of \(LogText.clean(manifest.madeAt)): "
        let tokens = (manifest.tokens ?? 0).counted("token")
        text += "the audit log up to row \(manifest.lastAuditRow), \(tokens).\n"
        if let replaced = outcome.replaced { text += "What was there before is in \(LogText.clean(replaced)).\n" }
        if !outcome.locked.isEmpty {
            let names = outcome.locked.sorted().prefix(20).map(LogText.clean).joined(separator: ", ")
            let more = outcome.locked.count - 20
            text += "Locked, as before or in the backup: \(names)\(more > 0 ? " and \(more) more" : "").\n"
        }
        guard outcome.marked > 0 else { return text }
        return text + """
            \(outcome.marked) of them \(outcome.marked == 1 ? "has" : "have") a refresh token, which may have been used since.
            Those that are valid once are not sent: such credentials need a login when their token expires.
            If nothing has used them since the backup:
              authgateway token refresh NAME

            """
    }
}
