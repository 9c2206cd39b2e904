private import CPresets
import Foundation
package import GatewayConfiguration
import GatewayFiles
package import GatewayHTTP
import GatewayStrategies
import NIOPosix
import Synchronization

/// The configuration of a running gateway, to be read again.
package struct ConfigurationSource: Sendable {
    let path: String
    /// What the plan of the start came from.
    let files: WatchedFiles
    /// What programs with a `ttl` said at the start.
    let programs: [SecretProgram: ProgramAnswer]
    /// Variables that count before those of the process.
    let overlay: [String: String]
    private let strictModes: Bool

    /// - Parameters:
    ///   - path: The path as diagnostics print it.
    ///   - overlay: Variables that count before those of the process.
    ///   - strictModes: Files that their group may write to are refused.
    ///   - file: What was read when the gateway was started.
    package init(
        path: String,
        overlay: [String: String] = [:],
        strictModes: Bool = false,
        file: ConfigurationFile
    ) {
        self.path = path
        self.overlay = overlay
        self.strictModes = strictModes
        files = file.watched
        programs = file.programs
    }

    struct Reading: Sendable {
        let outcome: Result<ConfigurationFile, CommandFailure>
        let files: WatchedFiles
        /// ``files``, secret files and certificates: what a person may have to correct if the reload fails.
        let all: WatchedFiles
    }

    /// On a thread of its own: secrets may come from programs, which take their time.
    ///
    /// - Parameter remembered: Programs that are not asked again.
    func read(remembering remembered: [SecretProgram: ProgramAnswer]) async -> Reading {
        do {
            return try await NIOThreadPool.singleton.runIfActive { reading(remembered) }
        } catch {
            let failure = CommandFailure(.failed, "the configuration was not read: the gateway is stopping")
            return Reading(outcome: .failure(failure), files: files, all: files)
        }
    }

    /// Reads what these files are now. On a thread of its own, like ``read(remembering:)``.
    func look(at files: WatchedFiles) async -> WatchedFiles {
        // Fails only while the gateway stops.
        (try? await NIOThreadPool.singleton.runIfActive { files.now() }) ?? files
    }

    /// Asks one program of the configuration.
    func ask(_ program: SecretProgram) async -> Result<Secret, UnusableInput> {
        let secrets = SystemSecretSource(overlay: overlay)
        let limit = SpawnedProgram.longestCall(timeout: program.timeout)
        let outcome = await OwnThread.run(within: limit) { isCancelled in
            Result { () throws(UnusableInput) in
                try secrets.program(program, isCancelled: isCancelled)
            }
        }
        return outcome.mapError { failure in
            UnusableInput("\(program.name) \(SpawnedProgram.Failure(failure, timeout: program.timeout).message)")
        }.flatMap(\.self)
    }

    private func reading(_ remembered: [SecretProgram: ProgramAnswer]) -> Reading {
        let files = RecordingConfigFiles()
        let outcome = Result { () throws(CommandFailure) in
            try ConfigurationFile(
                path: path,
                overlay: overlay,
                strictModes: strictModes,
                files: files,
                remembering: remembered,
                isReload: true,
                consequence: "the running configuration was kept"
            )
        }
        return Reading(outcome: outcome, files: files.watched, all: files.watchedWithSecrets)
    }
}

/// The files that a configuration came from, with what they were when they were read.
struct WatchedFiles: Equatable, Sendable {
    private var files: [String: FileVersion?] = [:]
    private var folders: [String: [String]] = [:]

    mutating func add(file path: String) {
        if files[path] == nil { files[path] = .some(FileVersion(path)) }
    }

    mutating func add(folder path: String, names: [String]) { folders[path] = Self.relevant(names) }

    func adding(_ other: WatchedFiles) -> WatchedFiles {
        var both = self
        both.files.merge(other.files) { ours, _ in ours }
        return both
    }

    /// Reads what these files are now.
    func now(_ source: SystemConfigFiles = SystemConfigFiles()) -> WatchedFiles {
        var now = WatchedFiles()
        for path in files.keys { now.add(file: path) }
        for folder in folders.keys { now.add(folder: folder, names: source.names(in: folder)) }
        return now
    }

    /// Without what editors put beside a file while they work on it.
    private static func relevant(_ names: [String]) -> [String] {
        names.filter { !$0.hasPrefix(".") && !$0.hasSuffix("~") && !$0.hasSuffix(".tmp") }.sorted()
    }
}

/// Remembers which files were asked for.
package final class RecordingConfigFiles: ConfigFileSource {
    private let files = SystemConfigFiles()
    private let record = Mutex(WatchedFiles())
    private let secrets = Mutex(WatchedFiles())

    package init() {}

    var watched: WatchedFiles { record.withLock { $0 } }
    var watchedWithSecrets: WatchedFiles { secrets.withLock { watched.adding($0) } }

    func note(secret path: String) { secrets.withLock { $0.add(file: path) } }

    package func absolutePath(_ path: String) -> String { files.absolutePath(path) }

    package func read(_ path: String, limit: Int) throws(ConfigFileError) -> [UInt8] {
        // Before it is read: what is written in between is then a change.
        record.withLock { $0.add(file: path) }
        return try files.read(path, limit: limit)
    }

    package func places(on path: String) -> [FilePlace] { files.places(on: path) }

    package func names(in folder: String) -> [String] {
        let names = files.names(in: folder)
        record.withLock { $0.add(folder: folder, names: names) }
        return names
    }
}

/// The variables that a configuration names and that are not set, where it was read with placeholders for them.
package final class UnsetVariables: Sendable {
    fileprivate static let mark = "unset"

    /// In small letters, as hosts are.
    private let placeholders = Mutex<Set<String>>([])

    package init() {}

    package func add(_ name: String) {
        _ = placeholders.withLock { $0.insert("\(Self.mark)_\(name)".lowercased()) }
    }

    /// Whether the name of a host holds one of them: nobody knows which host is meant.
    package func areIn(host: String) -> Bool {
        let host = host.lowercased()
        return placeholders.withLock { $0.contains { host.contains($0) } }
    }
}

/// The two ways in which the program reads a configuration: with its secrets, or for a command that may run where they are not.
extension ConfigLoader {
    /// Reads the configuration as a gateway does: a variable that is not set is a mistake.
    package static func running(
        _ files: any ConfigFileSource,
        _ secrets: some SecretSource,
        strictModes: Bool = false
    ) -> ConfigLoader {
        ConfigLoader(
            files: files,
            strictModes: strictModes,
            size: .ofProcess,
            unset: { secrets.unset($0) },
            environment: { secrets.environment($0) }
        )
    }

    /// Uses the variables that are set. Any other has a placeholder, about which there are no diagnostics.
    ///
    /// - Parameter placeholders: Is told of each variable that is not set.
    package static func unread(
        _ files: any ConfigFileSource,
        strictModes: Bool = false,
        noting placeholders: UnsetVariables? = nil
    ) -> ConfigLoader {
        let variables = SystemSecretSource()
        let mark = UnsetVariables.mark
        return ConfigLoader(files: files, placeholder: mark, strictModes: strictModes, size: .ofProcess) { name in
            let value = variables.environment(name)
            if value == nil { placeholders?.add(name) }
            return value
        }
    }

    /// With the strategies and presets of the program.
    package func plan(at path: String, secrets: any SecretSource) -> ConfigOutcome {
        plan(of: load(path), secrets: secrets)
    }

    func plan(of loading: Loading, secrets: any SecretSource) -> ConfigOutcome {
        plan(of: loading, catalog: .builtIn, presets: .builtIn, secrets: secrets)
    }
}

extension Result<ConfigurationSize, UnusableInput> {
    /// The limits that the environment of the program sets.
    package static var ofProcess: Self { ConfigurationSize.read(SystemSecretSource().environment) }
}

extension PresetLibrary {
    /// The presets that come with the program.
    package static let builtIn = PresetLibrary {
        var length = 0
        let start = unsafe authgateway_presets(&length)
        return unsafe Array(UnsafeBufferPointer(start: start, count: length))
    }
}
