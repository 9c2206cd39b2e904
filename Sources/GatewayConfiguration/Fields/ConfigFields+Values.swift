package import GatewayHTTP

/// Single values: texts, numbers, durations, sizes and URLs.
extension ConfigFields {
    /// The scalar behind `key`; nil when it is absent or null. A sequence or mapping is a problem.
    package func scalar(_ key: String) -> (scalar: ConfigNode.Scalar, span: SourceSpan)? {
        context.recorder?.note(.scalar, for: key, of: path)
        guard let node = node(key), !node.isNull else { return nil }
        guard case .scalar(let scalar) = node.content else {
            error(key, "expected a scalar, found \(node.kindName)")
            return nil
        }
        return (scalar, node.span)
    }

    /// - Parameter allowsLineBreaks: Whether it may contain line breaks, tabs and NUL, which some APIs use as a separator.
    package func string(_ key: String, allowsLineBreaks: Bool = false) -> String? {
        context.recorder?.note(.string, for: key, of: path)
        guard let text = text(key) else { return nil }
        guard !text.isEmpty else {
            error(key, "must not be empty")
            return nil
        }
        let isPlain = text.utf8.allSatisfy {
            $0 >= 0x20 && $0 != 0x7F || allowsLineBreaks && [0x00, 0x09, 0x0A, 0x0D].contains($0)
        }
        guard isPlain else {
            error(key, "must not contain control characters")
            return nil
        }
        return text
    }

    /// A scalar; where a strategy wants a text, also what `{env:}`, `{file:}`, `{exec:}` or `{systemd_credential:}` has.
    private func text(_ key: String) -> String? {
        if context.readsTexts { context.recorder?.note(.readText, for: key, of: path) }
        guard context.readsTexts, let node = node(key), case .mapping = node.content else {
            return scalar(key)?.scalar.text
        }
        return SecretReference.read(node, path: path.appending(key), context: context)?.withValue(\.self)
    }

    package func requiredString(_ key: String) -> String? {
        guard has(key) else {
            missing(key)
            return nil
        }
        return string(key)
    }

    /// What is made of the value behind `key`; nil when that cannot be used, and why is then a problem of the key.
    package func usable<Value>(_ key: String, _ value: @autoclosure () throws(UnusableInput) -> Value) -> Value? {
        do throws(UnusableInput) {
            return try value()
        } catch {
            self.error(key, error.message)
            return nil
        }
    }

    /// `true` or `false`; YAML 1.1's `yes`, `no`, `on` and `off` are words here, so they are refused with a hint.
    package func bool(_ key: String) -> Bool? {
        context.recorder?.note(.bool, for: key, of: path)
        guard let (scalar, _) = scalar(key) else { return nil }
        switch scalar.text {
        case "true" where !scalar.isQuoted: return true
        case "false" where !scalar.isQuoted: return false
        default:
            error(key, "expected true or false, found \(scalar.shown)")
            return nil
        }
    }

    package func integer(_ key: String, in range: ClosedRange<Int>) -> Int? {
        context.recorder?.note(.integer(range), for: key, of: path)
        guard let (scalar, _) = scalar(key) else { return nil }
        guard !scalar.isQuoted, let value = Int(scalar.text) else {
            error(key, "expected a whole number, found \(scalar.shown)")
            return nil
        }
        guard range.contains(value) else {
            error(key, "must be between \(range.lowerBound) and \(range.upperBound)")
            return nil
        }
        return value
    }

    /// One of the raw values of an enumeration.
    ///
    /// - Parameter standardNames: How standards call them, for a suggestion.
    package func choice<Choice: RawRepresentable & CaseIterable>(
        _ key: String,
        of type: Choice.Type,
        standardNames: [String: String] = [:]
    ) -> Choice? where Choice.RawValue == String {
        // Most choices are left out, and the words are then of no use.
        guard context.recorder != nil || node(key) != nil else { return nil }
        return word(key, of: Choice.allCases.map(\.rawValue), standardNames: standardNames)
            .flatMap(Choice.init(rawValue:))
    }

    /// One of these words.
    ///
    /// - Parameters:
    ///   - suggests: Whether a word that is nearly one of them is likely to be misspelt.
    ///   - standardNames: How standards call them.
    package func word(
        _ key: String,
        of words: [String],
        suggests: Bool = true,
        standardNames: [String: String] = [:]
    ) -> String? {
        context.recorder?.note(.choice(words), for: key, of: path)
        guard let (scalar, _) = scalar(key) else { return nil }
        if words.contains(scalar.text) { return scalar.text }
        let standard = standardNames[scalar.text.lowercased()].map { "; here that is \"\($0)\"" }
        let hint = standard ?? (suggests ? Suggestion.hint(for: scalar.text, in: words) : "")
        error(key, "expected one of \(words.joined(separator: ", ")); found \(scalar.shown)\(hint)")
        return nil
    }

    /// `250ms`, `30s`, `10m`, `1h`, `90d`.
    package func duration(_ key: String, in range: ClosedRange<Duration>? = nil) -> Duration? {
        context.recorder?.note(.duration(range), for: key, of: path)
        guard let (scalar, _) = scalar(key) else { return nil }
        guard let value = ConfigUnits.duration(scalar.text) else {
            error(key, "expected a duration such as 250ms, 30s, 10m or 1h, found \(scalar.shown)")
            return nil
        }
        if let range, !range.contains(value) {
            let (low, high) = (ConfigUnits.text(range.lowerBound), ConfigUnits.text(range.upperBound))
            error(key, "must be between \(low) and \(high)")
            return nil
        }
        return value
    }

    /// `512`, `64KiB`, `1MiB`, in bytes.
    package func size(_ key: String, in range: ClosedRange<Int>) -> Int? {
        context.recorder?.note(.size(range), for: key, of: path)
        guard let (scalar, _) = scalar(key) else { return nil }
        guard let value = ConfigUnits.size(scalar.text) else {
            error(key, "expected a size such as 64KiB or 1MiB, found \(scalar.shown)")
            return nil
        }
        guard range.contains(value) else {
            error(key, "must be between \(range.lowerBound) and \(range.upperBound) bytes")
            return nil
        }
        return value
    }

    /// `10%`.
    package func percent(_ key: String, in range: ClosedRange<Int> = 0...100) -> Int? {
        context.recorder?.note(.percent(range), for: key, of: path)
        guard let (scalar, _) = scalar(key) else { return nil }
        guard scalar.text.hasSuffix("%"), let value = Int(scalar.text.dropLast()), range.contains(value) else {
            let (low, high) = (range.lowerBound, range.upperBound)
            error(key, "expected a share between \(low)% and \(high)%, found \(scalar.shown)")
            return nil
        }
        return value
    }

    /// An https URL of an authority, or http on loopback.
    package func authorityURL(_ key: String) -> AuthorityURL? {
        context.recorder?.note(.url, for: key, of: path)
        guard let text = string(key) else { return nil }
        do throws(AuthorityURL.Refusal) {
            return try AuthorityURL(text)
        } catch {
            self.error(key, error.message)
            return nil
        }
    }

    package func requiredAuthorityURL(_ key: String) -> AuthorityURL? {
        guard has(key) else {
            missing(key)
            return nil
        }
        return authorityURL(key)
    }
}

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
            error(key, "expected a string, a number, true, false or a list of strings")
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
        // Written as one string with its program, an argument may be a secret.
        if let node = node(key), case .scalar = node.content { context.hide(node) }
        guard var arguments = strings(key) else { return nil }
        guard !arguments.isEmpty else {
            error(key, "must name a program")
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
