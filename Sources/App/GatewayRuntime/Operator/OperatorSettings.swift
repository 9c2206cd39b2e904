import GatewayCore
import GatewayTokenStores
import GatewayYAML

/// What commands beside a running gateway know about it, from its configuration without the secrets.
struct OperatorSettings: Sendable {
    let plan: OperatorPlan

    /// - Throws: ``ExitStatus/configuration`` when the file is not YAML, or one of the few keys is wrong.
    ///
    /// - Parameter readsDatabase: See ``OperatorPlan``.
    init(configuration path: String, readsDatabase: Bool = false) throws(CommandFailure) {
        let secrets = SystemSecretSource()
        // What is not set here was set where the gateway was started, and is not needed.
        let loading = ConfigLoader.unread(SystemConfigFiles()).load(path)
        let renderer = DiagnosticRenderer(files: loading.files, hiding: loading.secretSpans)
        guard let document = loading.document else {
            let text = renderer.render(loading.diagnostics, consequence: "nothing was asked")
            throw CommandFailure(.configuration, text)
        }
        let context = ConfigContext(document: document, secrets: secrets)
        let plan = OperatorPlan(document, context: context, readsDatabase: readsDatabase)
        let problems = context.diagnostics.filter { $0.severity == .error }
        guard let plan, problems.isEmpty else {
            let hidden = loading.secretSpans.union(context.secretSpans)
            let hiding = DiagnosticRenderer(files: loading.files, hiding: hidden)
            throw CommandFailure(.configuration, hiding.render(problems, consequence: "nothing was asked"))
        }
        self.plan = plan
    }

    /// The key that the audit chain was written with.
    func installationKey() throws(CommandFailure) -> InstallationKey {
        do throws(InstallationKeyError) {
            switch plan.tokens.key {
            case .value(let secret): return try InstallationKey(secret)
            case .file(let path):
                guard let key = try InstallationKey.load(path: path) else {
                    throw InstallationKeyError("there is no installation key at \(path)")
                }
                return key
            }
        } catch {
            throw CommandFailure(.failed, error.message)
        }
    }
}
