import ArgumentParser
import Foundation
import GatewayApp
import GatewayHTTP

struct KeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key",
        abstract: "Replace the key that the stored tokens are encrypted with.",
        discussion: """
            Example:
              authgateway key rotate
            """,
        subcommands: [KeyRotateCommand.self]
    )
}

struct KeyRotateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Make a new key for the token store and encrypt all tokens with it.",
        discussion: """
            Examples:
              authgateway key rotate
              authgateway key rotate --json | jq -r .file

            Goes through the running gateway, which keeps serving; when none runs,
            it works on the state directory. All tokens are re-encrypted in one
            transaction; a crash at any moment leaves a store that opens. The new key
            is a file with mode 0600: token.key.encryption beside token.key, unless
            tokens.encryption_key names another one. The old key no longer opens
            anything. Back up the new one.

            A key that comes from the environment, a systemd credential or a program
            cannot be replaced by the gateway. Make a new one (openssl rand -hex 32), name
            it as tokens.encryption_key and the present one as
            tokens.previous_encryption_key, restart, then remove the latter.

            The key of the audit log and of all digests (tokens.key) stays as it is.
            Recorded as key_rotating and key_rotated.

            Exit codes: 0 done, 1 failed or refused, 3 configuration, 4 no gateway
            and no token store.
            """
    )

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() async throws(CommandFailure) {
        let settings = try config.runningSettings()
        let client = settings.client
        let report = try await client.reach { () async throws(CommandFailure) in
            try await client.ask(AdminAPI.operations.rotateKey)
        } orOffline: { (failure) async throws(CommandFailure) in
            try await Self.rotate(settings, after: failure)
        }
        let text =
            "\(report.tokens) \(report.tokens == 1 ? "token is" : "tokens are") re-encrypted. The new key is "
            + "\(LogText.clean(report.file)): back it up together with the installation key.\n"
        Console.write(try json.text(of: report, or: text))
    }

    /// The lock of the state directory is held meanwhile, so that no gateway starts on what is being changed.
    private static func rotate(
        _ settings: OperatorSettings,
        after failure: CommandFailure
    ) async throws(CommandFailure) -> KeyRotationReport {
        if let problem = settings.problem { throw problem }
        let plan = try settings.withPrograms().plan
        guard plan.tokens.store == .sqlite else { throw CommandFailure(.failed, KeyRotation.noStore.detail) }
        guard FileManager.default.fileExists(atPath: plan.tokens.path) else {
            throw CommandFailure(
                .unreachable,
                "\(failure.description)\nand there is no token store \(plan.tokens.path) to re-encrypt"
            )
        }
        let storage = try await Storage.ofStoppedGateway(Storage.Places(plan))
        Console.writeError("No gateway runs here; this works on its files in \(LogText.clean(plan.stateDirectory)).\n")
        let result = await storage.rotateKey()
        await storage.close()
        return try AdminClient.value(of: result)
    }
}
