package import GatewayHTTP

/// Values that may be secrets, and what names one.
extension ConfigFields {
    /// A mapping of names to values, in file order; each a plain scalar or the name of a secret. What has a secret's name
    /// is one.
    package func valueMap(_ key: String) -> [(name: String, value: Secret)]? {
        guard let fields = fields(key) else { return nil }
        return fields.chosenNames().compactMap { name in
            context.recorder?.note(.secret, for: name, of: fields.path)
            if case .mapping? = fields.node(name)?.content { return fields.secret(name).map { (name, $0) } }
            if SecretMask.isSensitive(name) { return fields.secret(name).map { (name, $0) } }
            return fields.string(name).map { (name, Secret($0)) }
        }
    }

    /// A mapping of names to secrets, in file order.
    package func secretMap(_ key: String) -> [(name: String, value: Secret)]? {
        guard let fields = fields(key) else { return nil }
        return fields.chosenNames().compactMap { name in fields.requiredSecret(name).map { (name, $0) } }
    }

    /// A scalar, `{env:}`, `{file:}`, `{exec:}` or `{systemd_credential:}`, on one line.
    package func secret(_ key: String) -> Secret? {
        guard let secret = anySecret(key) else { return nil }
        guard let problem = Self.problem(of: secret) else { return secret }
        error(key, problem)
        return nil
    }

    /// One secret, or a list of them: a new one, and those that it replaces.
    package func secrets(_ key: String, upTo maximum: Int) -> [Secret] {
        context.recorder?.note(.secrets(maximum), for: key, of: path)
        guard case .sequence(let nodes)? = node(key)?.content else { return secret(key).map { [$0] } ?? [] }
        hidesUnknownValues = true
        for node in nodes { context.hide(node) }
        guard (1...maximum).contains(nodes.count) else {
            error(key, "expected 1 to \(maximum) secrets, found \(nodes.count)")
            return []
        }
        return nodes.enumerated().compactMap { number, node in
            let path = path.appending(key).appending(number)
            let secret = SecretReference.read(node, path: path, context: context)
            guard let problem = secret.flatMap(Self.problem) else { return secret }
            context.error(problem, at: node.span, path: path)
            return nil
        }
    }

    private static func problem(of secret: Secret) -> String? {
        if secret.isEmpty { return "the secret is empty" }
        if secret.withValue({ $0.utf8.allSatisfy { $0 == 0x20 } }) { return "the secret has nothing but spaces" }
        let isOneLine = secret.withValue { $0.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }
        return isOneLine ? nil : "the secret contains a control character, such as a line break in the middle"
    }

    package func requiredSecret(_ key: String) -> Secret? {
        guard has(key) else {
            hidesUnknownValues = true
            missing(key)
            return nil
        }
        return secret(key)
    }

    /// A secret that may have several lines: a private key in PEM.
    package func requiredSecretText(_ key: String) -> Secret? {
        guard has(key) else {
            hidesUnknownValues = true
            missing(key)
            return nil
        }
        return anySecret(key)
    }

    /// A text that may hold a secret, such as a URL with a password; `{env:}` and the like name one.
    ///
    /// - Parameter isSecret: Says of a text in the file whether it holds one.
    package func textOrSecret(_ key: String, isSecret: (String) -> Bool) -> String? {
        context.recorder?.note(.secret, for: key, of: path)
        guard let node = node(key), !node.isNull else { return nil }
        if case .scalar(let scalar) = node.content, !isSecret(scalar.text) { return string(key) }
        return secret(key)?.withValue { $0 }
    }

    package func secretOrigin(_ key: String) -> SecretOrigin? {
        guard let node = node(key) else { return nil }
        let files = context.document.files
        let place = files.indices.contains(node.span.file) ? "\(files[node.span.file].name):\(node.span.line)" : nil
        let source: String?
        let isVariable: Bool
        switch node.content {
        case .mapping(let entries):
            source = entries.lazy.compactMap { SecretReference.words(for: $0.key, $0.value) }.first
            isVariable = entries.contains { $0.key == "env" }
        case .scalar(let scalar): (source, isVariable) = (nil, scalar.isInterpolated)
        case .sequence: (source, isVariable) = (nil, false)
        }
        let words = source.map { source in place.map { "\(source) (\($0))" } ?? source } ?? place
        return words.map { SecretOrigin(words: $0, isVariable: isVariable) }
    }

    private func anySecret(_ key: String) -> Secret? {
        context.recorder?.note(.secret, for: key, of: path)
        hidesUnknownValues = true
        guard let node = node(key), !node.isNull else { return nil }
        let secret = SecretReference.read(node, path: path.appending(key), context: context)
        if let secret, secret.isEmpty {
            error(key, "the secret is empty")
            return nil
        }
        return secret
    }
}

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
        do throws(UnusableInput) {
            switch source {
            case "env":
                guard let name = fields.string("env") else { return nil }
                guard let value = secrets.environment(name) else {
                    fields.error("env", secrets.unset(name))
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
