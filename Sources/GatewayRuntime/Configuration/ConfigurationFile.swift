import GatewayConfiguration
package import GatewayCore

/// A configuration that has been read and checked.
package struct ConfigurationFile: Sendable {
    package let plan: Plan
    /// As people read them; empty when there are none.
    package let warnings: String
    /// Which files it came from.
    let watched: WatchedFiles
    /// What programs with a `ttl` said.
    let programs: [SecretProgram: ProgramAnswer]

    /// - Parameters:
    ///   - path: As diagnostics shall print it.
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
    init(
        path: String,
        overlay: [String: String],
        strictModes: Bool,
        files: RecordingConfigFiles,
        remembering remembered: [SecretProgram: ProgramAnswer] = [:],
        consequence: String
    ) throws(CommandFailure) {
        let system = SystemSecretSource(overlay: overlay)
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
