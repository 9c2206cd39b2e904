/// Mappings, sequences and what is written as one of them.
extension ConfigFields {
    package func fields(_ key: String) -> ConfigFields? {
        context.recorder?.note(.mapping, for: key, of: path)
        guard let entry = entry(key), !entry.value.isNull else { return nil }
        return ConfigFields(
            entry.value,
            path: path.appending(key),
            context: context,
            under: entry.keySpan,
            example: example(of: key)
        )
    }

    /// The elements of a sequence with their paths; nil when absent, a problem when it is not a sequence.
    package func elements(_ key: String) -> [(node: ConfigNode, path: ConfigPath)]? {
        context.recorder?.note(.sequence, for: key, of: path)
        guard let node = node(key), !node.isNull else { return nil }
        guard case .sequence(let nodes) = node.content else {
            error(key, "expected a sequence, found \(node.kindName)")
            return nil
        }
        let path = path.appending(key)
        return nodes.enumerated().map { ($1, path.appending($0)) }
    }

    package func strings(_ key: String) -> [String]? {
        context.recorder?.note(.strings, for: key, of: path)
        guard let elements = elements(key) else { return nil }
        var strings: [String] = []
        for (node, path) in elements {
            guard case .scalar(let scalar) = node.content, !scalar.isNull else {
                context.error("expected a string, found \(node.kindName)", at: node.span, path: path)
                continue
            }
            guard !scalar.text.isEmpty else {
                context.error("must not be empty", at: node.span, path: path)
                continue
            }
            strings.append(scalar.text)
        }
        return strings
    }

    package enum ScalarOrFields {
        case scalar(ConfigNode.Scalar)
        case fields(ConfigFields)
    }

    /// A scalar that stands for the most usual mapping, or the mapping; nil when it is absent. A list is a problem.
    package func scalarOrFields(_ key: String) -> ScalarOrFields? {
        // Both forms are recorded, whichever stands here.
        context.recorder?.note(.scalar, for: key, of: path)
        if case .scalar(let scalar)? = node(key)?.content, !scalar.isNull { return .scalar(scalar) }
        return fields(key).map { .fields($0) }
    }

    package enum ScalarOrStrings {
        case scalar(ConfigNode.Scalar)
        case strings([String])
    }

    /// A scalar, or a list of strings; nil when it is absent. Anything else is a problem, and so is nothing behind the key.
    package func scalarOrStrings(_ key: String) -> ScalarOrStrings? {
        context.recorder?.note(.scalarOrStrings, for: key, of: path)
        switch node(key)?.content {
        case nil: return nil
        case .scalar(let scalar)? where !scalar.isNull: return .scalar(scalar)
        case .sequence?: return strings(key).map { .strings($0) }
        case .scalar?, .mapping?:
            error(key, "expected a text, a number, true, false or a list of texts")
            return nil
        }
    }

    /// A mapping of names to strings, in file order.
    package func stringMap(_ key: String) -> [(name: String, value: String)]? {
        guard let fields = fields(key) else { return nil }
        return fields.chosenNames().compactMap { name in fields.string(name).map { (name, $0) } }
    }

    /// A program and its arguments, to be run without a shell. `./` is the folder of the file that names it.
    package func command(_ key: String) -> [String]? {
        // Of a program and its arguments in one string, an argument may be a secret.
        if let node = node(key), case .scalar = node.content { context.hide(node) }
        guard var arguments = strings(key) else { return nil }
        guard !arguments.isEmpty else {
            error(key, "names no program")
            return nil
        }
        guard !arguments.contains(where: { $0.utf8.contains(0) }) else {
            error(key, "must not contain a NUL character")
            return nil
        }
        if arguments[0].hasPrefix("./"), let span = node(key)?.span {
            arguments[0] = context.resolve(arguments[0], at: span)
        }
        return arguments
    }
}
