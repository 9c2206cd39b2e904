/// What `version --json` prints.
package struct VersionReport: Encodable, Sendable {
    let version = GatewayVersion.current
    let commit: String?
    let commitDate: String?
    let build: Build

    struct Build: Encodable, Sendable {
        let configuration: String
        let toolchain: String?
        let target: String?
        let profile: Bool
    }

    package init() { self.init(BuildRecord.current) }

    init(_ record: BuildRecord) {
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

    package func json() throws(CommandFailure) -> String { try JSONText.pretty(self) }
}
