import Crypto
import Foundation
import GatewayFiles
import GatewayHTTP
import GatewayTokenStores
import GatewayTokens
import Testing

@Suite("Installation key", .timeLimit(.minutes(5)))
struct InstallationKeyTests {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test func aKeyIsCreatedForItsOwnerAloneAndStaysTheSame() throws {
        let path = directory.file("state/token.key")
        let first = try InstallationKey.loadOrCreate(path: path)
        let second = try InstallationKey.loadOrCreate(path: path)
        #expect(first.derived(for: .tokenStore) == second.derived(for: .tokenStore))
        #expect(try directory.mode(of: "state/token.key") == 0o600)
        #expect(try directory.mode(of: "state") == 0o700)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)).count == 32)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.file("state")) == ["token.key"])
    }

    @Test func processesThatCreateTheKeyTogetherGetTheSameOne() async throws {
        let path = directory.file("token.key")
        let names = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<16 { group.addTask { try InstallationKey.loadOrCreate(path: path).instanceName } }
            return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(names.count == 1)
    }

    @Test func everyPurposeHasAKeyOfItsOwn() throws {
        let key = try InstallationKey(bytes: Array(0..<32))
        let keys = InstallationKey.Purpose.allCases.map { key.derived(for: $0) }
        for (index, one) in keys.enumerated() {
            for other in keys.dropFirst(index + 1) { #expect(one != other) }
        }
    }

    @Test(arguments: [0o640, 0o604, 0o644, 0o620])
    func aKeyThatOthersMayReadIsRefused(_ mode: Int) throws {
        let path = directory.file("token.key")
        _ = try InstallationKey.loadOrCreate(path: path)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        let error = #expect(throws: StateError.self) { try InstallationKey.loadOrCreate(path: path) }
        #expect(error?.description.contains("chmod 600") == true)
    }

    @Test(arguments: [0, 1, 31, 33, 5000])
    func aKeyOfTheWrongLengthIsRefused(_ count: Int) throws {
        let path = directory.file("token.key")
        let content = Data(repeating: 7, count: count)
        #expect(FileManager.default.createFile(atPath: path, contents: content, attributes: [.posixPermissions: 0o600]))
        let error = #expect(throws: StateError.self) { try InstallationKey.loadOrCreate(path: path) }
        #expect(error?.description.contains("32") == true)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == content, "a file that is there is never replaced")
    }

    @Test func aLinkIsNotFollowed() throws {
        _ = try InstallationKey.loadOrCreate(path: directory.file("real.key"))
        let link = directory.file("token.key")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: directory.file("real.key"))
        let error = #expect(throws: StateError.self) { try InstallationKey.loadOrCreate(path: link) }
        #expect(error?.description.contains("symbolic link") == true)
    }

    @Test func aDirectoryIsNotAKey() throws {
        #expect(throws: StateError.self) { try InstallationKey.loadOrCreate(path: directory.path) }
    }

    @Test(arguments: [
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F\n",
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        " AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 ",
    ])
    func textFormsGiveTheSameKey(_ text: String) throws {
        let expected = try InstallationKey(bytes: Array(0..<32))
        #expect(try InstallationKey(Secret(text)).derived(for: .auditChain) == expected.derived(for: .auditChain))
    }

    @Test(arguments: ["", "hello", "00010203", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwd", "zz" + "00".repeated(31)])
    func otherTextIsRefusedWithoutRepeatingIt(_ text: String) throws {
        let error = #expect(throws: StateError.self) { try InstallationKey(Secret(text)) }
        #expect(error?.description.contains("64 hexadecimal digits") == true)
        if !text.isEmpty { #expect(error?.description.contains(text) == false) }
    }

    @Test func aCredentialKeyDependsOnTheIdentityAndTheInstallation() throws {
        var one = GrantIdentity(strategy: "box_ccg", subject: "enterprise:1")
        one.add("client_secret", "canary")
        var other = one
        other.add("scope", "read")
        let key = try InstallationKey(bytes: Array(0..<32))
        let elsewhere = try InstallationKey(bytes: Array(1...32))
        let digest = key.credentialKey(for: one).digest
        #expect(digest.utf8.count == 32)
        #expect(digest.allSatisfy { $0.isHexDigit && !$0.isUppercase })
        #expect(digest == key.credentialKey(for: one).digest)
        #expect(digest != key.credentialKey(for: other).digest)
        #expect(digest != elsewhere.credentialKey(for: one).digest)
    }

    @Test func aKeyPrintsNothing() throws {
        let key = try InstallationKey(bytes: Array(repeating: 65, count: 32))
        var dumped = ""
        Swift.dump(key, to: &dumped)
        #expect("\(key)" == "‹installation key›")
        #expect(!dumped.contains("65"))
    }
}

extension String {
    fileprivate func repeated(_ count: Int) -> String { String(repeating: self, count: count) }
}
