import GatewayHTTP

/// Reads the ways in which the configuration can name a secret.
enum SecretReference {
    static func read(_ node: ConfigNode, path: ConfigPath, context: ConfigContext) -> Secret? {
        switch node.content {
        case .scalar(let scalar):
            context.hide(node)
            if !scalar.isInterpolated {
                let advice = "{env: NAME}, {file: path}, {exec: [program]} or {systemd_credential: name}"
                context.warning("a secret in plain text; better: \(advice)", at: node.span, path: path)
            }
            return Secret(scalar.text)
        case .sequence:
            context.hide(node)
            context.error("expected a secret, found a sequence", at: node.span, path: path)
            return nil
        case .mapping:
            guard let fields = ConfigFields(node, path: path, context: context) else { return nil }
            fields.hidesUnknownValues = true
            fields.know("environment", "timeout", "ttl")
            let secret = context.readingTexts(false) { resolve(fields) }
            fields.refuseUnknownKeys()
            // Last: what is said about the reference itself counts.
            if secret != nil { context.noteSecret(at: node.span) }
            return secret
        }
    }

    /// What a person knows the source of a secret by; nil for a key that names none.
    ///
    /// For a command it names only the program, because arguments may be secrets.
    static func words(for key: String, _ value: ConfigNode) -> String? {
        let first: ConfigNode? = if case .sequence(let nodes) = value.content { nodes.first } else { value }
        guard case .scalar(let scalar)? = first?.content, !scalar.isInterpolated else { return nil }
        let text = SourceLine.printable(scalar.text)
        return switch key {
        case "env": "the environment variable \(text)"
        case "file": "the file \(text)"
        case "exec": "the output of \(text)"
        case "systemd_credential": "the systemd credential \(text)"
        default: nil
        }
    }

    private static func resolve(_ fields: ConfigFields) -> Secret? {
        for key in ["environment", "timeout", "ttl"] where !fields.has("exec") && fields.has(key) {
            fields.error(key, "is for exec only")
        }
        let sources = ["env", "file", "exec", "systemd_credential"].filter { fields.has($0) }
        guard sources.count == 1, let source = sources.first else {
            // A misspelt source is reported as the unknown key that it is.
            if sources.isEmpty, !fields.unknownKeys.isEmpty { return nil }
            fields.error("a secret is named by exactly one of env, file, exec, systemd_credential")
            return nil
        }
        let secrets = fields.context.secrets
        do throws(SecretSourceError) {
            switch source {
            case "env":
                guard let name = fields.string("env") else { return nil }
                guard let value = secrets.environment(name) else {
                    fields.error("env", "the environment variable \(name) is not set")
                    return nil
                }
                return Secret(value)
            case "file":
                guard let path = fields.string("file"), let span = fields.node("file")?.span else { return nil }
                return try secrets.file(fields.context.resolve(path, at: span))
            case "exec":
                let timeout = fields.duration("timeout", in: .milliseconds(1) ... .seconds(60)) ?? .seconds(5)
                let ttl = fields.duration("ttl", in: .seconds(1) ... .seconds(30 * 86_400))
                let variables = fields.valueMap("environment") ?? []
                guard let arguments = fields.command("exec") else { return nil }
                let environment = Dictionary(variables.map { ($0.name, $0.value) }) { first, _ in first }
                return try secrets.program(
                    SecretProgram(arguments, environment: environment, timeout: timeout, ttl: ttl)
                )
            default:
                guard let name = fields.string("systemd_credential") else { return nil }
                return try secrets.systemdCredential(name)
            }
        } catch {
            fields.error(source, error.message)
            return nil
        }
    }
}
