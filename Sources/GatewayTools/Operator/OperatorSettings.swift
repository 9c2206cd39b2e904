import GatewayApp
import GatewayConfiguration
import GatewayFiles
import GatewayHTTP
import GatewayProxy
import GatewayTokenStores

/// What commands beside a running gateway know about it, from its configuration without the secrets.
struct OperatorSettings: Sendable {
    let plan: OperatorPlan
    /// Why the configuration cannot be read; ``plan`` is then what the running gateway recorded. nil where it can be read.
    let problem: CommandFailure?
    /// Whether the address of the gateway comes from the configuration, or from a record that this user wrote.
    private let isOwnAddress: Bool
    /// The configuration's path, where ``plan`` has placeholders for what programs print. Most commands need none of it.
    private let programsUnread: String?

    /// Reads the settings for a command that works on the gateway's files.
    ///
    /// - Parameter readsDatabase: See ``OperatorPlan``.
    /// - Throws: ``ExitStatus/configuration`` when the file is not YAML, or one of the few keys is wrong.
    init(configuration path: String, readsDatabase: Bool = false) throws(CommandFailure) {
        do throws(Unreadable) {
            plan = try Self.read(path, SystemSecretSource(), readsDatabase: readsDatabase)
        } catch {
            throw error.failure
        }
        problem = nil
        isOwnAddress = true
        programsUnread = nil
    }

    /// Reads the settings for a command that asks the running gateway. Runs no program.
    ///
    /// While one runs that was started with the file, a file that cannot be read is a warning.
    ///
    /// - Throws: ``ExitStatus/configuration`` when the file cannot be read and no such gateway is found.
    init(running path: String) throws(CommandFailure) {
        do throws(Unreadable) {
            var read = try Self.read(path, SecretsWithoutPrograms(), readsDatabase: false)
            if let bound = Self.bound(read, path) { read.admin = bound }
            plan = read
            problem = nil
            isOwnAddress = true
            programsUnread = path
        } catch {
            let running = RunningGateways(environment: Console.environment)
            guard let found = running.one(configuration: SystemConfigFiles().absolutePath(path)),
                let recorded = OperatorPlan(found.gateway)
            else { throw error.failure }
            Console.writeError(error.warning(process: found.gateway.process))
            plan = recorded
            problem = error.failure
            isOwnAddress = found.isOwn
            programsUnread = nil
        }
    }

    /// With what the programs print that the configuration names; they are run now.
    func withPrograms() throws(CommandFailure) -> OperatorSettings {
        if let programsUnread { try OperatorSettings(configuration: programsUnread) } else { self }
    }

    /// Where the gateway that was started with the file listens, if the file has named another address since. A new address needs a restart,
    /// and until then anybody may listen there.
    ///
    /// - Returns: nil where the file counts.
    private static func bound(_ read: OperatorPlan, _ path: String) -> AdminPlan? {
        let running = RunningGateways(environment: Console.environment)
        guard let found = running.one(configuration: SystemConfigFiles().absolutePath(path)), found.isOwn,
            found.gateway.stateDirectory == read.stateDirectory,
            let recorded = OperatorPlan(found.gateway)?.admin, recorded.address != read.admin.address
        else { return nil }
        return recorded
    }

    /// Speaks to the gateway.
    var client: AdminClient {
        AdminClient(plan.admin, stateDirectory: plan.stateDirectory, isOwnAddress: isOwnAddress)
    }

    /// Why the configuration cannot be read. An error for a command that needs it, a warning for one that finds the gateway without it.
    private struct Unreadable: Error {
        let diagnostics: [ConfigDiagnostic]
        let renderer: DiagnosticRenderer

        var failure: CommandFailure {
            CommandFailure(.configuration, renderer.render(diagnostics, consequence: "nothing was asked"))
        }

        func warning(process: Int) -> String {
            let warnings = diagnostics.map { diagnostic in
                var warning = diagnostic
                warning.severity = .warning
                return warning
            }
            return renderer.render(warnings, consequence: "")
                + "Asking the gateway that was started with this file and still runs (process \(process)).\n"
        }
    }

    private static func read(
        _ path: String,
        _ secrets: some SecretSource,
        readsDatabase: Bool
    ) throws(Unreadable) -> OperatorPlan {
        // What is not set here was set where the gateway was started, and is not needed.
        let loading = ConfigLoader.unread(SystemConfigFiles()).load(path)
        guard let document = loading.document else {
            let renderer = DiagnosticRenderer(files: loading.files, hiding: loading.secretSpans)
            throw Unreadable(diagnostics: loading.diagnostics, renderer: renderer)
        }
        let context = ConfigContext(document: document, secrets: secrets)
        let plan = OperatorPlan(document, context: context, readsDatabase: readsDatabase)
        let problems = context.diagnostics.filter { $0.severity == .error }
        guard let plan, problems.isEmpty else {
            let hidden = loading.secretSpans.union(context.secretSpans)
            throw Unreadable(diagnostics: problems, renderer: DiagnosticRenderer(files: loading.files, hiding: hidden))
        }
        return plan
    }

    /// The key that the audit chain was written with.
    func installationKey() throws(CommandFailure) -> InstallationKey {
        let plan = try withPrograms().plan
        do throws(StateError) {
            switch plan.tokens.key {
            case .value(let secret): return try InstallationKey(secret)
            case .file(let path):
                guard !path.isEmpty else {
                    throw StateError("the installation key is in the configuration, which cannot be read")
                }
                guard let key = try InstallationKey.load(path: path) else {
                    throw StateError("there is no installation key at \(path)")
                }
                return key
            }
        } catch {
            throw CommandFailure(error)
        }
    }
}

/// Reads from this machine whatever it does not replace.
protocol SecretsOfThisMachine: SecretSource {
    var system: SystemSecretSource { get }
}

/// Every requirement, so that nothing is missing because a default stands in its place.
extension SecretsOfThisMachine {
    func environment(_ name: String) -> String? { system.environment(name) }
    func unset(_ name: String) -> String { system.unset(name) }
    func file(_ path: String) throws(UnusableInput) -> Secret { try system.file(path) }
    func program(_ program: SecretProgram) throws(UnusableInput) -> Secret { try system.program(program) }
    func systemdCredential(_ name: String) throws(UnusableInput) -> Secret { try system.systemdCredential(name) }

    func openPrivateKey(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? {
        system.openPrivateKey(pem, passphrase: passphrase)
    }

    func certificates(_ path: String) throws(UnusableInput) -> String { try system.certificates(path) }
    func publicText(_ path: String) throws(UnusableInput) -> String { try system.publicText(path) }
    func fits(_ tls: ClientTLS) -> Bool { system.fits(tls) }
    func userID(ofName name: String) -> UInt32? { system.userID(ofName: name) }
    var areUnread: Bool { system.areUnread }
}

/// The secrets of this machine, with a placeholder for what a program would print.
private struct SecretsWithoutPrograms: SecretsOfThisMachine {
    let system = SystemSecretSource()

    func program(_ program: SecretProgram) throws(UnusableInput) -> Secret { Secret("unread exec") }
}
