package import GatewayConfiguration
import GatewayFiles
import GatewayHTTP
import Synchronization

/// Edits the files of a configuration for a command: changes them in memory, shows the difference, checks, writes.
///
///     let editor = try ConfigurationEditor("gateway.yaml")
///     try editor.append(.init("github", value: ["{preset: github}"]), to: "routes")
///     Console.write(editor.difference)
///     try editor.check()
///     try editor.write()
package struct ConfigurationEditor: Sendable {
    private let path: String
    private let strictModes: Bool
    private let files = EditedConfigFiles()
    private let document: ConfigDocument
    /// Where secrets stand in the files, before the edits.
    private let secretSpans: Set<SourceSpan>
    /// What `preset` can name.
    package let presets: PresetLibrary

    /// - Parameter path: The main file, as messages shall print it.
    /// - Throws: ``ExitStatus/configuration`` when a file cannot be read to its end.
    package init(_ path: String, strictModes: Bool = false) throws(CommandFailure) {
        self.path = path
        self.strictModes = strictModes
        let loader = ConfigLoader.unread(files, strictModes: strictModes)
        let loading = loader.load(path)
        let outcome = loader.plan(of: loading, secrets: UnreadSecrets())
        guard let document = loading.document else {
            throw CommandFailure(.configuration, outcome.report(consequence: Self.consequence))
        }
        self.document = document
        secretSpans = outcome.secretSpans
        presets = outcome.presets
    }

    private static let consequence = "nothing was changed"

    /// What the configuration would be after the edits.
    private var outcome: ConfigOutcome {
        ConfigLoader.unread(files, strictModes: strictModes).plan(at: path, secrets: UnreadSecrets())
    }

    // MARK: What there is

    /// All files in one tree, as they were before the edits.
    package var root: ConfigNode { document.root }

    /// The folder that paths in the main file are relative to.
    package var folder: String { document.files.first?.directory ?? "" }

    /// The files that were changed, as messages print them.
    package var changedFiles: [String] {
        files.changed.map(name)
    }

    /// Absolute. `./state` beside the main file where the configuration does not say it.
    package var stateDirectory: String {
        OperatorPlan(document, context: ConfigContext(document: document, secrets: UnreadSecrets()))?.stateDirectory
            ?? "\(folder)/state"
    }

    /// For the secrets that a command is issued or that a person pastes.
    package var secretFiles: SecretFiles {
        let hasKeyFile = root.value(of: "tokens")?.value(of: "key") == nil
        return SecretFiles(stateDirectory: stateDirectory, folder: folder, hasKeyFile: hasKeyFile)
    }

    /// Whether a file had this text, and no file has it after the edits.
    package func namesNoLonger(_ text: String) -> Bool {
        func has(_ bytes: [UInt8]) -> Bool { String(decoding: bytes, as: UTF8.self).contains(text) }
        return files.opened.contains { has($0.file.bytes) } && !files.opened.contains { has($0.bytes) }
    }

    // MARK: Edits

    /// Adds an entry to a section of the main file, whatever files are included.
    package func append(_ entry: ConfigurationText.Entry, to section: String) throws(CommandFailure) {
        if let present = root.entries(of: section).first(where: { $0.key == entry.name }) {
            let place = "\(document.files[present.keySpan.file].name):\(present.keySpan.line)"
            throw CommandFailure(.configuration, "\(place): \(section) has an entry \"\(entry.name)\" already")
        }
        try edit(0) { text throws(ConfigurationEditError) in try text.append(entry, to: section) }
    }

    /// Writes another text as the value of a key of an entry, in the file that it stands in.
    package func set(
        _ key: String,
        of name: String,
        in section: String,
        to text: String
    ) throws(CommandFailure) {
        guard let entry = root.entries(of: section).first(where: { $0.key == name }) else {
            throw CommandFailure(.failed, "\(section) has no entry \"\(LogText.clean(name))\"")
        }
        try edit(entry.keySpan.file) { file throws(ConfigurationEditError) in
            try file.set(key, of: name, in: section, to: text)
        }
    }

    /// Removes an entry from the file that it stands in.
    package func remove(_ name: String, from section: String) throws(CommandFailure) {
        guard let entry = root.entries(of: section).first(where: { $0.key == name }) else {
            let hint = Suggestion.hint(for: name, in: root.entries(of: section).map(\.key))
            throw CommandFailure(.failed, "\(section) has no entry \"\(LogText.clean(name))\"\(hint)")
        }
        try edit(entry.keySpan.file) { text throws(ConfigurationEditError) in try text.remove(name, from: section) }
    }

    /// Lays the main file out, and not those that it includes.
    package func format() throws(CommandFailure) {
        try edit(0) { text throws(ConfigurationEditError) in try text.format() }
    }

    private func edit(
        _ index: Int,
        _ change: (inout ConfigurationText) throws(ConfigurationEditError) -> Void
    ) throws(CommandFailure) {
        let file = document.files[index]
        guard let opened = files[file.path] else { throw CommandFailure(.failed, "\(file.name) was not read") }
        do throws(ConfigurationEditError) {
            var text = try ConfigurationText(opened.bytes)
            try change(&text)
            files.replace(text.bytes, of: file.path)
        } catch {
            throw CommandFailure(.configuration, error.text(in: file.name))
        }
    }

    /// The name of the file in messages.
    private func name(_ file: EditedConfigFiles.Opened) -> String {
        document.files.first { $0.path == file.path }?.name ?? file.path
    }

    // MARK: The outcome

    /// What the edits change, without secrets; empty when they change nothing.
    package var difference: String {
        let after = outcome
        var text = ""
        for (index, old) in document.files.enumerated() {
            guard let file = files[old.path], file.isChanged else { continue }
            let new = YAMLLoader().load(file.bytes, file: index)
            let difference = ConfigurationDifference(
                of: old.name,
                from: .init(old.lines, hiding: secretSpans, file: index),
                to: .init(new.lines, hiding: after.secretSpans, file: index)
            )
            text += difference.text
        }
        return text
    }

    /// Decodes the configuration as it would be. Reads no secret and runs no program: that is for `authgateway check`.
    ///
    /// - Returns: Warnings, as people read them.
    /// - Throws: ``ExitStatus/configuration`` with all mistakes.
    @discardableResult
    package func check() throws(CommandFailure) -> String {
        let outcome = outcome
        let report = outcome.report(consequence: Self.consequence)
        guard outcome.isValid else { throw CommandFailure(.configuration, report) }
        return report
    }

    /// Replaces each file that was changed, whole. Its mode and owner stay; a symbolic link stays one.
    ///
    /// - Throws: When a file is no longer what was read. Files before it have been written then.
    package func write() throws(CommandFailure) {
        for file in files.changed {
            do throws(PrivateFile.Failure) {
                try file.file.replace(with: file.bytes)
            } catch {
                throw CommandFailure(.failed, "\(name(file)) was not written: \(error.reason)")
            }
        }
    }
}

/// A configuration that has been read and checked.
package struct ConfigurationFile: Sendable {
    package let plan: Plan
    /// The warnings as people read them; empty if there are none.
    package let warnings: String
    /// Which files it came from.
    let watched: WatchedFiles
    /// What programs with a `ttl` said.
    let programs: [SecretProgram: ProgramAnswer]

    /// - Parameters:
    ///   - path: The path as diagnostics print it.
    ///   - overlay: Variables that count before those of the process.
    ///   - strictModes: Files that their group may write to are refused.
    ///   - consequence: What problems led to, for the closing line.
    /// - Throws: ``ExitStatus/configuration`` with all problems.
    package init(
        path: String,
        overlay: [String: String] = [:],
        strictModes: Bool = false,
        consequence: String
    ) throws(CommandFailure) {
        try self.init(
            path: path,
            overlay: overlay,
            strictModes: strictModes,
            files: RecordingConfigFiles(),
            consequence: consequence
        )
    }

    /// - Parameters:
    ///   - files: Knows afterwards which files were read, also when they have problems.
    ///   - remembered: Programs that are not asked again.
    ///   - isReload: Whether the gateway reads it that runs already.
    init(
        path: String,
        overlay: [String: String],
        strictModes: Bool,
        files: RecordingConfigFiles,
        remembering remembered: [SecretProgram: ProgramAnswer] = [:],
        isReload: Bool = false,
        consequence: String
    ) throws(CommandFailure) {
        let system = SystemSecretSource(overlay: overlay, isReload: isReload)
        let secrets = RecordingSecretSource(system, in: files, remembering: remembered)
        let outcome = ConfigLoader.running(files, secrets, strictModes: strictModes).plan(at: path, secrets: secrets)
        let report = outcome.report(consequence: consequence)
        guard let plan = outcome.plan else { throw CommandFailure(.configuration, report) }
        // Read later, by the listeners that use them.
        for path in plan.certificatePaths { files.note(secret: path) }
        self.plan = plan
        warnings = report
        watched = files.watched
        programs = secrets.programs
    }
}

/// The configuration's files as a command has changed them, on top of those of the disk.
private final class EditedConfigFiles: ConfigFileSource {
    struct Opened: Sendable {
        /// Absolute.
        let path: String
        let file: EditedFile
        /// The content after the edits.
        var bytes: [UInt8]

        var isChanged: Bool { bytes != file.bytes }
    }

    private let disk = SystemConfigFiles()
    private let state = Mutex<[Opened]>([])

    /// The files that were read, each once, in the order in which they were first read.
    var opened: [Opened] { state.withLock(\.self) }

    /// The files whose content differs from the disk.
    var changed: [Opened] { opened.filter(\.isChanged) }

    /// - Parameter path: Absolute; nil when the file was not read.
    subscript(path: String) -> Opened? { opened.first { $0.path == path } }

    func replace(_ bytes: [UInt8], of path: String) {
        state.withLock { opened in
            for index in opened.indices where opened[index].path == path { opened[index].bytes = bytes }
        }
    }

    func absolutePath(_ path: String) -> String { disk.absolutePath(path) }
    func places(on path: String) -> [FilePlace] { disk.places(on: path) }
    func names(in folder: String) -> [String] { disk.names(in: folder) }

    func read(_ path: String, limit: Int) throws(ConfigFileError) -> [UInt8] {
        if let known = self[path] { return known.bytes }
        let file: EditedFile
        do throws(BoundedFile.Failure) {
            file = try EditedFile.read(path, limit: limit)
        } catch {
            // With the words that the loader's own reading has for it.
            return try disk.read(path, limit: limit)
        }
        state.withLock { $0.append(Opened(path: path, file: file, bytes: file.bytes)) }
        return file.bytes
    }
}
