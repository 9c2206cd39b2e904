import ArgumentParser
import GatewayApp

struct VersionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "version",
        abstract: "Print the version.",
        discussion: """
            Examples:
              authgateway version
              authgateway version --json   also the commit, its date and the toolchain

            A build that is not a release has no commit and no toolchain.
            """
    )

    @OptionGroup var json: JSONFlag

    func run() throws(CommandFailure) {
        Console.write(try json.text(of: VersionReport(), or: "authgateway \(GatewayVersion.current)\n"))
    }
}

/// What `version --json` prints.
struct VersionReport: Encodable {
    let version = GatewayVersion.current
    let commit: String?
    let commitDate: String?
    let build: Build

    struct Build: Encodable {
        let configuration: String
        let toolchain: String?
        let target: String?
        let profile: Bool
    }

    init(_ record: BuildRecord = .current) {
        commit = record.commit
        commitDate = record.commitDate
        #if DEBUG
            let configuration = "debug"
        #else
            let configuration = "release"
        #endif
        build = Build(
            configuration: configuration,
            toolchain: record.toolchain,
            target: record.target,
            profile: record.profile ?? false
        )
    }
}
