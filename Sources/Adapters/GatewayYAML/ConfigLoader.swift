package import GatewayCore

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
    }

    private static let maximumFiles = 256

    let files: any ConfigFileSource
    /// What `preset` can name, without a folder of one's own.
    let presets: PresetLibrary
    private let environment: @Sendable (String) -> String?
    private let placeholder: String?
    let strictModes: Bool
    private let loader = YAMLLoader()

    /// - Parameters:
    ///   - presets: What `preset` can name.
    ///   - placeholder: Stands for a variable that is neither set nor has a default; nil reports it.
    ///   - strictModes: Files and folders that their group may write to are errors, not warnings.
    ///   - environment: What `${NAME}` looks up.
    package init(
        files: any ConfigFileSource,
        presets: PresetLibrary = PresetLibrary(),
        placeholder: String? = nil,
        strictModes: Bool = false,
        environment: @escaping @Sendable (String) -> String?
    ) {
        self.files = files
        self.presets = presets
        self.placeholder = placeholder
        self.strictModes = strictModes
        self.environment = environment
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
        guard state.isComplete else { return state.failed() }
        return merge(roots, state)
    }

    private func merge(_ roots: [ConfigNode], _ state: State) -> Loading {
        var state = state
        var merge = ConfigMerge()
        let merged = merge.merge(roots)
        state.diagnostics += merge.diagnostics
        guard var root = merged else { return state.failed() }
        var interpolation = Interpolation(files: state.files, placeholder: placeholder, environment: environment)
        interpolation.apply(to: &root)
        state.diagnostics += interpolation.diagnostics
        return Loading(
            document: ConfigDocument(files: state.files, root: root),
            files: state.files,
            diagnostics: state.diagnostics,
            secretSpans: state.secretSpans
        )
    }

    private struct State {
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
            Loading(document: nil, files: files, diagnostics: diagnostics.inFileOrder, secretSpans: secretSpans)
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
        guard checkModes(files.places(on: absolute), at: start, into: &state) else {
            // Nothing of it is read: it could name programs to run.
            if included == nil { state.files.append(ConfigDocument.File(name: name, directory: "", lines: [])) }
            return nil
        }
        let bytes: [UInt8]
        do throws(ConfigFileError) {
            bytes = try files.read(absolute, limit: loader.limits.bytes + 1)
        } catch {
            if included == nil {
                state.files.append(ConfigDocument.File(name: name, directory: "", lines: []))
            }
            state.isComplete = false
            state.report(included == nil ? error.messageOfMainFile : "\(name): \(error.message)", at: start)
            return nil
        }
        let text = loader.load(bytes, file: index)
        let folder = Self.folder(of: absolute)
        state.files.append(ConfigDocument.File(name: name, directory: folder, lines: text.lines))
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

    /// - Returns: false when another user could have written what would be read.
    private func checkModes(_ places: [FilePlace], at span: SourceSpan, into state: inout State) -> Bool {
        var isTrusted = true
        for place in places {
            guard let finding = FileModeRule.finding(of: place, isStrict: strictModes) else { continue }
            if finding.severity == .error { (isTrusted, state.isComplete) = (false, false) }
            guard state.modes.insert(finding).inserted else { continue }
            var diagnostic = ConfigDiagnostic(finding.severity, finding.message, at: span)
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
        var interpolation = Interpolation(files: state.files, placeholder: placeholder, environment: environment)
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
        let base = pattern.hasPrefix("/") ? folder + "/" : Self.joined(Self.folder(of: main), folder)
        guard last.contains("*") || last.contains("?") else { return [(base + last, base + last)] }
        let itself = files.absolutePath(main)
        let prefix = pattern.hasPrefix("/") ? base : Self.joined(Self.folder(of: itself), folder)
        var places = files.places(on: prefix)
        if let last = places.indices.last { places[last].kind = .listedFolder }
        guard checkModes(places, at: inclusion.span, into: &state) else { return [] }
        return files.names(in: prefix)
            .filter { !$0.hasPrefix(".") && Wildcard.matches(Array($0.utf8), Array(last.utf8)) }
            .sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
            .filter { prefix + $0 != itself }
            .map { (prefix + $0, base + $0) }
    }

    private static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "" }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// A prefix that a name can be put behind: empty, or with a slash at the end.
    private static func joined(_ folder: String, _ below: String) -> String {
        let below = below.hasPrefix("./") ? String(below.dropFirst(2)) : (below == "." ? "" : below)
        let path = folder.isEmpty || below.isEmpty || folder.hasSuffix("/") ? folder + below : folder + "/" + below
        return path.isEmpty || path.hasSuffix("/") ? path : path + "/"
    }
}
