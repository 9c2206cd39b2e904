package import GatewayConfiguration
package import GatewayHTTP
package import GatewayTokens

/// Reads `gateway.yaml` and the files that it includes, and makes one document of them.
package struct ConfigLoader: Sendable {
    package struct Loading: Sendable {
        /// nil when a file could not be read to its end; with other problems the rest of it can still be checked.
        package let document: ConfigDocument?
        /// What diagnostics refer to, also when there is no document.
        package let files: [ConfigDocument.File]
        package let diagnostics: [ConfigDiagnostic]
        /// What must not be shown with them, nor with what is found later.
        package let secretSpans: Set<SourceSpan>
        /// What ``diagnostics`` say of files and folders that others may write to.
        let modes: Set<FileModeRule.Finding>
    }

    static let maximumFiles = 256

    let files: any ConfigFileSource
    private let environment: @Sendable (String) -> String?
    private let placeholder: String?
    private let unset: @Sendable (String) -> String
    let strictModes: Bool
    private let size: Result<ConfigurationSize, UnusableInput>
    private let loader: YAMLLoader

    /// - Parameters:
    ///   - placeholder: Stands for a variable that is neither set nor has a default; nil reports it.
    ///   - strictModes: Files and folders that their group may write to are errors, not warnings.
    ///   - unset: What is said of a variable that is not set.
    ///   - environment: What `${NAME}` looks up.
    package init(
        files: any ConfigFileSource,
        placeholder: String? = nil,
        strictModes: Bool = false,
        size: Result<ConfigurationSize, UnusableInput> = .success(ConfigurationSize()),
        unset: @escaping @Sendable (String) -> String = { UnreadSecrets().unset($0) },
        environment: @escaping @Sendable (String) -> String?
    ) {
        self.files = files
        self.placeholder = placeholder
        self.strictModes = strictModes
        self.environment = environment
        self.unset = unset
        self.size = size
        loader = YAMLLoader(limits: (try? size.get()).map { YAMLLimits($0) } ?? YAMLLimits())
    }

    /// - Parameter path: As diagnostics shall print it; relative to the working directory.
    package func load(_ path: String) -> Loading {
        var state = State()
        guard var main = read(path, shownAs: path, included: nil, into: &state) else { return state.failed() }
        let include = takeInclude(from: &main, into: &state)
        var roots = [main]
        for inclusion in include {
            for path in paths(of: inclusion, beside: path, into: &state) {
                guard state.files.count < Self.maximumFiles else {
                    state.report("more than \(Self.maximumFiles) files", at: inclusion.span, path: Self.includePath)
                    break
                }
                if let root = read(path.real, shownAs: path.shown, included: inclusion.span, into: &state) {
                    roots.append(root)
                }
            }
        }
        if case .failure(let refusal) = size {
            state.isComplete = false
            state.report(refusal.message, at: SourceSpan(file: 0, line: 1, column: 1))
        }
        guard state.isComplete else { return state.failed() }
        return merge(roots, state)
    }

    private func merge(_ roots: [ConfigNode], _ state: State) -> Loading {
        var state = state
        var merge = ConfigMerge()
        let merged = merge.merge(roots)
        state.diagnostics += merge.diagnostics
        guard var root = merged else { return state.failed() }
        var interpolation = Interpolation(
            files: state.files,
            placeholder: placeholder,
            unset: unset,
            environment: environment
        )
        interpolation.apply(to: &root)
        state.diagnostics += interpolation.diagnostics
        return Loading(
            document: ConfigDocument(files: state.files, root: root, size: (try? size.get()) ?? ConfigurationSize()),
            files: state.files,
            diagnostics: state.diagnostics,
            secretSpans: state.secretSpans,
            modes: state.modes
        )
    }

    struct State {
        var files: [ConfigDocument.File] = []
        var diagnostics: [ConfigDiagnostic] = []
        var secretSpans: Set<SourceSpan> = []
        var isComplete = true
        /// What was said of files and folders that others may write to, each once.
        var modes: Set<FileModeRule.Finding> = []

        mutating func report(_ message: String, at span: SourceSpan, path: ConfigPath = .root) {
            diagnostics.append(ConfigDiagnostic(.error, message, at: span, path: path))
        }

        func failed() -> Loading {
            Loading(
                document: nil,
                files: files,
                diagnostics: diagnostics.inFileOrder,
                secretSpans: secretSpans,
                modes: modes
            )
        }
    }

    /// - Parameter included: Where the file is named, when it is not the main one.
    private func read(
        _ path: String,
        shownAs name: String,
        included: SourceSpan?,
        into state: inout State
    ) -> ConfigNode? {
        let absolute = files.absolutePath(path)
        let index = state.files.count
        let start = included ?? SourceSpan(file: index, line: 1, column: 1)
        let bytes: [UInt8]?
        do throws(ConfigFileError) {
            bytes = try readTrusted(absolute, at: start, into: &state)
        } catch {
            state.isComplete = false
            state.report(included == nil ? error.messageOfMainFile : "\(name): \(error.message)", at: start)
            bytes = nil
        }
        guard let bytes else {
            if included == nil { state.files.append(ConfigDocument.File(name: name, path: absolute, lines: [])) }
            return nil
        }
        let text = loader.load(bytes, file: index)
        state.files.append(ConfigDocument.File(name: name, path: absolute, lines: text.lines))
        state.diagnostics += text.diagnostics
        guard let root = text.root else {
            state.secretSpans.formUnion(UnreadLines(text.lines).hidden(from: text.diagnostics))
            state.isComplete = false
            return nil
        }
        state.secretSpans.formUnion(root.keylessScalars.map(\.span))
        if included != nil, case .mapping(let entries) = root.content,
            let nested = entries.first(where: { $0.key == "include" })
        {
            state.report("an included file cannot include others", at: nested.keySpan, path: Self.includePath)
            return nil
        }
        return root
    }

    // MARK: Trust

    /// Every file of a configuration is read by this, presets included: each can name programs to run.
    ///
    /// - Returns: nil when another user could have written it, which is reported. Nothing of it is read then.
    func readTrusted(
        _ absolute: String,
        at span: SourceSpan,
        path: ConfigPath = .root,
        into state: inout State
    ) throws(ConfigFileError) -> [UInt8]? {
        guard isTrusted(files.places(on: absolute), at: span, path: path, into: &state) else { return nil }
        return try files.read(absolute, limit: loader.limits.bytes + 1)
    }

    /// The names in a folder of which every file with a fitting name is read.
    ///
    /// - Returns: nil when another user could have put a file there, which is reported.
    func trustedNames(
        in folder: String,
        at span: SourceSpan,
        path: ConfigPath = .root,
        into state: inout State
    ) -> [String]? {
        var places = files.places(on: folder)
        if let last = places.indices.last { places[last].kind = .listedFolder }
        return isTrusted(places, at: span, path: path, into: &state) ? files.names(in: folder) : nil
    }

    private func isTrusted(
        _ places: [FilePlace],
        at span: SourceSpan,
        path: ConfigPath,
        into state: inout State
    ) -> Bool {
        var isTrusted = true
        for place in places {
            guard let finding = FileModeRule.finding(of: place, isStrict: strictModes) else { continue }
            if finding.severity == .error { (isTrusted, state.isComplete) = (false, false) }
            guard state.modes.insert(finding).inserted else { continue }
            var diagnostic = ConfigDiagnostic(finding.severity, finding.message, at: span, path: path)
            diagnostic.command = finding.command
            state.diagnostics.append(diagnostic)
        }
        return isTrusted
    }

    // MARK: Includes

    private static let includePath = ConfigPath.root.appending("include")

    /// One element of `include:`, interpolated.
    private struct Inclusion {
        let pattern: String
        let span: SourceSpan
    }

    private func takeInclude(from root: inout ConfigNode, into state: inout State) -> [Inclusion] {
        guard case .mapping(var entries) = root.content,
            let index = entries.firstIndex(where: { $0.key == "include" })
        else { return [] }
        var node = entries.remove(at: index).value
        root.content = .mapping(entries)
        var interpolation = Interpolation(
            files: state.files,
            placeholder: placeholder,
            unset: unset,
            environment: environment
        )
        interpolation.apply(to: &node, path: Self.includePath)
        state.diagnostics += interpolation.diagnostics
        guard interpolation.diagnostics.isEmpty, !node.isNull else { return [] }
        let nodes = if case .sequence(let nodes) = node.content { nodes } else { [node] }
        return nodes.compactMap { node in
            guard case .scalar(let scalar) = node.content, !scalar.isNull else {
                state.report("expected a path, found \(node.kindName)", at: node.span, path: Self.includePath)
                return nil
            }
            return Inclusion(pattern: scalar.text, span: node.span)
        }
    }

    /// The files that a pattern names, in lexical order. The file that includes is never one of them.
    private func paths(
        of inclusion: Inclusion,
        beside main: String,
        into state: inout State
    ) -> [(real: String, shown: String)] {
        let pattern = inclusion.pattern
        let slash = pattern.lastIndex(of: "/")
        let folder = slash.map { String(pattern[..<$0]) } ?? ""
        let last = slash.map { String(pattern[pattern.index(after: $0)...]) } ?? pattern
        guard !last.isEmpty, !folder.contains("*"), !folder.contains("?") else {
            state.report(
                "names a file, or a pattern with * or ? in its last part",
                at: inclusion.span,
                path: Self.includePath
            )
            return []
        }
        // Absolute when the pattern begins with a slash, else relative to the main file.
        let base = pattern.hasPrefix("/") ? folder + "/" : Self.joined(ConfigDocument.File.folder(of: main), folder)
        guard last.contains("*") || last.contains("?") else { return [(base + last, base + last)] }
        let itself = files.absolutePath(main)
        let prefix = pattern.hasPrefix("/") ? base : Self.joined(ConfigDocument.File.folder(of: itself), folder)
        guard let names = trustedNames(in: prefix, at: inclusion.span, into: &state) else { return [] }
        return names.filter { !$0.hasPrefix(".") && Wildcard.matches(Array($0.utf8), Array(last.utf8)) }
            .sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
            .filter { prefix + $0 != itself }
            .map { (prefix + $0, base + $0) }
    }

    /// A prefix that a name can be put behind: empty, or with a slash at the end.
    private static func joined(_ folder: String, _ below: String) -> String {
        let below = below.hasPrefix("./") ? String(below.dropFirst(2)) : (below == "." ? "" : below)
        let path = folder.isEmpty || below.isEmpty || folder.hasSuffix("/") ? folder + below : folder + "/" + below
        return path.isEmpty || path.hasSuffix("/") ? path : path + "/"
    }
}

/// The result of loading a configuration: a plan, or the problems that prevent one; warnings in both cases.
package struct ConfigOutcome: Sendable {
    package let plan: Plan?
    /// In file order.
    package let diagnostics: [ConfigDiagnostic]
    /// What `preset` can name.
    package let presets: PresetLibrary
    fileprivate let files: [ConfigDocument.File]
    /// What must not be shown of the files.
    package let secretSpans: Set<SourceSpan>
    fileprivate let renderer: DiagnosticRenderer

    /// The diagnostics as people read them, without a secret; empty when there are none.
    ///
    /// - Parameter consequence: See ``DiagnosticRenderer/render(_:consequence:)``.
    package func report(consequence: String) -> String { renderer.render(diagnostics, consequence: consequence) }

    /// The diagnostics as programs read them.
    package var report: DiagnosticReport { DiagnosticReport(diagnostics, files: files) }

    /// Whether there is no error. With ``UnreadSecrets`` there may be no plan all the same.
    package var isValid: Bool { !diagnostics.contains { $0.severity == .error } }
}

/// From the loaded text to a plan.
extension ConfigLoader {
    /// Text to plan in one go: all problems of all files are in the outcome.
    ///
    /// - Parameter presets: What `preset` can name, without a folder of one's own.
    package func plan(
        at path: String,
        catalog: StrategyCatalog,
        presets: PresetLibrary,
        secrets: any SecretSource
    ) -> ConfigOutcome {
        plan(of: load(path), catalog: catalog, presets: presets, secrets: secrets)
    }

    /// Makes a plan of text that is loaded.
    package func plan(
        of loading: Loading,
        catalog: StrategyCatalog,
        presets: PresetLibrary,
        secrets: any SecretSource
    ) -> ConfigOutcome {
        guard let document = loading.document else {
            let renderer = DiagnosticRenderer(files: loading.files, hiding: loading.secretSpans)
            return ConfigOutcome(
                plan: nil,
                diagnostics: loading.diagnostics,
                presets: presets,
                files: loading.files,
                secretSpans: loading.secretSpans,
                renderer: renderer
            )
        }
        let own = ownPresets(of: loading)
        let presets = presets.overridden(by: own.library)
        let decoding = PlanDecoder.decode(
            document,
            after: loading.diagnostics + own.diagnostics,
            catalog: catalog,
            presets: presets,
            secrets: secrets
        )
        let hidden = loading.secretSpans.union(decoding.secretSpans)
        let renderer = DiagnosticRenderer(files: loading.files, hiding: hidden)
        return ConfigOutcome(
            plan: decoding.plan,
            diagnostics: decoding.diagnostics,
            presets: presets,
            files: loading.files,
            secretSpans: hidden,
            renderer: renderer
        )
    }
}
