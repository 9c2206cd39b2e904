package import GatewayConfiguration
import GatewayCore
import GatewayFiles

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
    /// Of the files as they were.
    private let secretSpans: Set<SourceSpan>
    /// What `preset` can name.
    let presets: PresetLibrary

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

    /// As it would be after the edits.
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

    /// As messages print it.
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
