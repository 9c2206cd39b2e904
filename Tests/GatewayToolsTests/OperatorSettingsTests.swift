import Foundation
import GatewayHTTP
import GatewayProxy
import Testing

@testable import GatewayApp
@testable import GatewayTools

/// What `status`, `token` and `audit` read of a configuration in a shell that is not the gateway's.
@Suite(.timeLimit(.minutes(5)))
struct OperatorSettingsTests {
    private func settings(_ text: String) throws -> OperatorSettings {
        let folder = FileManager.default.temporaryDirectory.appending(path: "operator-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "gateway.yaml")
        try Data(text.utf8).write(to: file)
        return try OperatorSettings(configuration: file.path(percentEncoded: false))
    }

    @Test func aDefaultCountsWhenTheVariableIsNotSet() throws {
        let settings = try settings(
            """
            version: 1
            state_directory: ${OPERATOR_TEST_UNSET:-/srv/state}
            listeners:
              admin: {address: "127.0.0.1:${OPERATOR_TEST_UNSET:-9099}"}
            """
        )
        #expect(settings.plan.admin.address == .tcp(host: "127.0.0.1", port: 9099))
        #expect(settings.plan.stateDirectory == "/srv/state")
    }

    @Test func aSecretThatIsNotSetHereIsNotMissed() throws {
        let settings = try settings(
            """
            version: 1
            state_directory: /srv/state
            credentials:
              service: {strategy: bearer, token: "${OPERATOR_TEST_UNSET:?set it}"}
              other: {strategy: bearer, token: "${OPERATOR_TEST_UNSET}"}
            """
        )
        #expect(settings.plan.admin.address == .tcp(host: "127.0.0.1", port: 8081))
    }

    /// The rest of the configuration is wrong, and does not matter.
    @Test func namesAreReadWithoutTheRest() throws {
        let names = try settings(
            """
            version: 1
            access: {clients: {laptop: {token: 7}, ci: nothing}}
            credentials: {box: {strategy: none-such}, other: 5}
            routes:
              files: {upstream: "https://API.example.com:443/v2", auth: box}
              own: {upstream: "http://127.0.0.1:81", auth: {strategy: bearer, token: x}}
              odd: {upstream: [], auth: {credential: box}}
              empty:
            """
        ).plan.names
        #expect(names.clients == ["laptop", "ci"])
        #expect(names.credentials == ["box", "other", "routes.own"])
        #expect(names.routes == ["files", "own", "odd", "empty"])
        #expect(names.upstreams == ["files": "https://api.example.com", "own": "http://127.0.0.1:81"])
    }

    @Test func aConfigurationWithoutNamesHasNone() throws {
        #expect(try settings("version: 1\nroutes: nothing\naccess:\n").plan.names == ConfiguredNames())
    }

    /// A configuration may lie in the folder in which a terminal happens to open.
    @Test func noProgramRunsForACommandThatAsksTheGateway() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "settings-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        defer { try? FileManager.default.removeItem(at: folder) }
        let (file, mark) = (folder.appending(path: "gateway.yaml"), folder.appending(path: "ran").path)
        let key = String(repeating: "ab", count: 32)
        let script = "touch \(mark); printf %s \(key)"
        let text =
            "version: 1\nstate_directory: ./state\ntokens: {key: {exec: [/bin/sh, -c, \"\(script)\"]}}\nroutes: {}\n"
        try Data(text.utf8).write(to: file)
        let settings = try OperatorSettings(running: file.path(percentEncoded: false))
        #expect(!FileManager.default.fileExists(atPath: mark))
        #expect(try settings.withPrograms().plan.tokens.key == .value(Secret(key)))
        #expect(FileManager.default.fileExists(atPath: mark))
    }
}
