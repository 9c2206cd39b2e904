import Crypto
import Foundation
import GatewayFiles
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayLocalAuthority

@Suite("Files of the local authority for clients", .timeLimit(.minutes(5)))
struct ClientTrustFilesTests {
    private let folder: String
    private let system: String
    private let files: ClientTrustFiles
    private let authority: LocalAuthority

    init() throws {
        let place = FileManager.default.temporaryDirectory.appending(path: "trust-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
        folder = place.path(percentEncoded: false)
        system = folder + "/system.pem"
        try Self.pem("AAAA").write(toFile: system, atomically: true, encoding: .utf8)
        files = ClientTrustFiles(stateDirectory: folder, systemBundles: [folder + "/none.pem", system])
        let key = SymmetricKey(data: [UInt8](repeating: 7, count: 32))
        authority = LocalAuthority(stateDirectory: folder, key: key, clock: ManualClock())
    }

    private static func pem(_ text: String) -> String {
        "-----BEGIN CERTIFICATE-----\n\(text)\n-----END CERTIFICATE-----\n"
    }

    private func certificates(_ path: String) throws -> [String] {
        PEM.certificates(in: try String(contentsOfFile: path, encoding: .utf8))
    }

    @Test func withoutAnAuthorityThereIsNothingToTrust() throws {
        #expect(try files.write(adding: []) == nil)
        #expect(!FileManager.default.fileExists(atPath: folder + "/ca"))
    }

    @Test func theBundleHasTheSystemsAndWhatWasNamedAndOurs() throws {
        try authority.cover(["api.example"])
        let own = try certificates(LocalAuthority.bundlePath(in: folder))
        let plain = try #require(try files.write(adding: []))
        #expect(try certificates(plain.bundle) == ["AAAA"] + own)
        let corporate = folder + "/corporate.pem"
        try Self.pem("BBBB").write(toFile: corporate, atomically: true, encoding: .utf8)
        let more = try #require(try files.write(adding: [corporate, folder + "/missing.pem", plain.own, plain.bundle]))
        #expect(try certificates(more.bundle) == ["AAAA", "BBBB"] + own && more.bundle != plain.bundle)
        for path in [more.bundle, more.javaStore, plain.bundle] {
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect(mode == 0o400)
        }
    }

    @Test func theCertificatesOfAnotherUsersGatewayAreCopied() throws {
        let place = folder + "/cache/gateway"
        let copy = ClientTrustFiles(authorityFolder: place, systemBundles: [system])
        let first = try copy.write(copying: Self.pem("OOOO"), adding: [])
        #expect(try certificates(first.bundle) == ["AAAA", "OOOO"] && certificates(first.own) == ["OOOO"])
        let second = try copy.write(copying: Self.pem("PPPP"), adding: [])
        #expect(try second == first && certificates(first.bundle) == ["AAAA", "PPPP"])
        for path in ["/trust", ""] {
            let mode = try FileManager.default.attributesOfItem(atPath: place + path)[.posixPermissions] as? Int
            #expect(mode == 0o700)
        }
        #expect(throws: StateError.self) { try copy.write(copying: "no certificates", adding: []) }
        #expect(try certificates(first.own) == ["PPPP"])
    }

    @Test func ofWhatAnotherGatewaySendsOnlyCertificatesAreKept() throws {
        let place = folder + "/cache/gateway"
        let copy = ClientTrustFiles(authorityFolder: place, systemBundles: [system])
        let trust = try copy.write(copying: "\u{1b}[31m\n" + Self.pem("OOOO") + "-----BEGIN X-----\n", adding: [])
        #expect(try String(contentsOfFile: trust.own, encoding: .utf8) == Self.pem("OOOO"))
        #expect(throws: StateError.self) { try copy.write(copying: Self.pem("!!!!"), adding: []) }
        #expect(try certificates(trust.own) == ["OOOO"])
    }

    /// Who may write to it says which certificates programs trust.
    @Test(arguments: ["", "/trust"])
    func certificatesAreNotWrittenWhereOthersCanReplaceThem(name: String) throws {
        let place = folder + "/cache/gateway"
        let manager = FileManager.default
        try manager.createDirectory(atPath: place + "/trust", withIntermediateDirectories: true)
        try manager.setAttributes([.posixPermissions: 0o777], ofItemAtPath: place + name)
        let copy = ClientTrustFiles(authorityFolder: place, systemBundles: [system])
        let failure = #expect(throws: StateError.self) { try copy.write(copying: Self.pem("OOOO"), adding: []) }
        #expect(failure?.description.contains("others can change \(place + name)") == true)
        #expect(!manager.fileExists(atPath: place + "/ca.pem"))
    }

    @Test func theOldestBundlesGo() throws {
        try authority.cover(["api.example"])
        func bundles() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: folder + "/ca/trust").filter { $0.hasSuffix(".pem") }
        }
        let first = try #require(try files.write(adding: ["/missing-0.pem"])).bundle
        for number in 1..<32 { _ = try files.write(adding: ["/missing-\(number).pem"]) }
        #expect(try bundles().count == 32 && FileManager.default.fileExists(atPath: first))
        _ = try files.write(adding: ["/missing-32.pem"])
        #expect(try bundles().count == 32 && !FileManager.default.fileExists(atPath: first))
    }

    @Test func aNewAuthorityReachesProgramsThatRun() throws {
        try authority.cover(["api.example"])
        let trust = try #require(try files.write(adding: []))
        let store = try Data(contentsOf: URL(filePath: trust.javaStore))
        #expect(try authority.cover(["api.example", "new.example"]) == ["new.example"])
        #expect(try certificates(trust.bundle) == ["AAAA"] + certificates(trust.own))
        #expect(try certificates(trust.own).count == 2)
        #expect(try Data(contentsOf: URL(filePath: trust.javaStore)) != store)
    }

    @Test func withoutTheSystemsCertificatesAnotherFileIsNeeded() throws {
        try authority.cover(["api.example"])
        let lone = ClientTrustFiles(stateDirectory: folder, systemBundles: [folder + "/none.pem"])
        #expect(throws: StateError.self) { try lone.write(adding: []) }
        #expect(try certificates(#require(try lone.write(adding: [system])).bundle).first == "AAAA")
    }

    @Test func anEnvironmentOfEachKindDoesNotFillTheDisk() throws {
        try authority.cover(["api.example"])
        for number in 0..<40 { _ = try files.write(adding: ["\(folder)/\(number).pem"]) }
        let names = try FileManager.default.contentsOfDirectory(atPath: folder + "/ca/trust")
        #expect(names.count { $0.hasSuffix(".pem") } == 32 && names.count { $0.hasSuffix(".p12") } == 32)
    }
}
