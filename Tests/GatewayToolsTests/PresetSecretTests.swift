import Foundation
import GatewayConfiguration
import Testing

@testable import GatewayApp
@testable import GatewayTools

/// What `add` and `init` say of a secret that is not there.
@Suite(.timeLimit(.minutes(5)))
struct PresetSecretTests {
    private static let what = "The token of acme.example."

    private func secret(_ source: PresetSecret.Source) throws -> PresetSecret {
        PresetSecret(
            required: try FirstConfiguration.Service(url: "https://acme.example").secret(for: "acme"),
            source: source
        )
    }

    private func advice(
        _ source: PresetSecret.Source,
        _ variables: [String: String] = [:],
        in folder: String = "/none"
    ) throws -> String? {
        try secret(source).advice(reading: SystemSecretSource(environment: variables), in: folder)
    }

    @Test func aVariableIsToBeSetWhateverItsName() throws {
        #expect(try advice(.environment("MY_KEY")) == "Set MY_KEY where the gateway starts: \(Self.what)")
        #expect(try advice(.environment("MY_KEY"), ["MY_KEY": "x"]) == nil)
    }

    @Test func aFileIsToBeFilled() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "secret-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.path(percentEncoded: false)
        let missing = try #require(try advice(.file("a.token"), in: path))
        #expect(missing.hasPrefix("The gateway cannot read a.token. Put this into it: \(Self.what)\n"), "\(missing)")
        #expect(FileManager.default.createFile(atPath: path + "/a.token", contents: Data("x".utf8)))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path + "/a.token")
        #expect(try advice(.file("a.token"), in: path) == nil)
        #expect(try advice(.file(path + "/a.token")) == nil)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path + "/a.token")
        #expect(try #require(try advice(.file("a.token"), in: path)).contains("chmod 600"))
    }

    @Test func aCredentialOfSystemdIsToBeAddedToTheUnit() throws {
        let advice = try advice(.systemd("acme"))
        #expect(advice == "Add LoadCredential=acme:FILE to the unit of the gateway: \(Self.what)")
    }

    @Test func aDollarSignStaysOne() throws {
        #expect(try [secret(.file("./a${HOME}b"))].yaml == ["ACME_TOKEN": "{file: \"./a$${HOME}b\"}"])
    }
}
