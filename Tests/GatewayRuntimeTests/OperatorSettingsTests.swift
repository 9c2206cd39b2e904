import Foundation
import GatewayCore
import Testing

@testable import GatewayRuntime

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
}
