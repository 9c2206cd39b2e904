import Crypto
import Foundation
import GatewayFiles
import GatewayHTTP
import GatewayTesting
import SwiftASN1
import Testing
import X509

@testable import GatewayLocalAuthority
@testable import GatewayProxy

@Suite("Local authority", .timeLimit(.minutes(5)))
struct LocalAuthorityTests {
    private let folder: String
    private let clock = ManualClock()
    private let key = SymmetricKey(data: [UInt8](repeating: 7, count: 32))

    init() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "authority-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        self.folder = folder.path(percentEncoded: false)
    }

    private func open() -> LocalAuthority { LocalAuthority(stateDirectory: folder, key: key, clock: clock) }

    private func roots() throws -> [Certificate] {
        let text = try String(contentsOfFile: LocalAuthority.bundlePath(in: folder), encoding: .utf8)
        return try PEMDocument.parseMultiple(pemString: text).map { try Certificate(derEncoded: $0.derBytes) }
    }

    private func chain(_ authority: LocalAuthority, _ host: String) throws -> (leaf: Certificate, issuer: Certificate) {
        let chain = try authority.leaf(for: host).chain.map { try Certificate(derEncoded: $0) }
        try #require(chain.count == 2)
        return (chain[0], chain[1])
    }

    @Test func aHostHasAnIssuerThatIsConstrainedToIt() throws {
        let authority = open()
        #expect(try authority.cover(["api.example", "Other.example"]) == ["api.example", "other.example"])
        let (leaf, issuer) = try chain(authority, "api.example")
        let root = try #require(try roots().first)
        #expect(root.publicKey.isValidSignature(issuer.signature, for: issuer))
        #expect(issuer.publicKey.isValidSignature(leaf.signature, for: leaf))
        let constraints = try #require(try issuer.extensions.nameConstraints)
        #expect(Array(constraints.permittedDNSDomains) == ["api.example"] && constraints.excludedIPRanges.count == 2)
        #expect(issuer.extensions[oid: .X509ExtensionID.nameConstraints]?.critical == true)
        #expect(try issuer.extensions.basicConstraints == .isCertificateAuthority(maxPathLength: 0))
        #expect(try root.extensions.basicConstraints == .isCertificateAuthority(maxPathLength: 1))
        #expect(leaf.extensions[oid: .X509ExtensionID.subjectAlternativeName]?.critical == true)
        #expect(try leaf.extensions.subjectAlternativeNames.map(Array.init) == [.dnsName("api.example")])
        let named = try leaf.extensions.authorityKeyIdentifier?.keyIdentifier
        #expect(try named == issuer.extensions.subjectKeyIdentifier?.keyIdentifier)
        #expect(leaf.notValidAfter <= issuer.notValidAfter && leaf.subject.isEmpty)
    }

    @Test func anyOtherHostIsRefused() throws {
        let authority = open()
        try authority.cover(["api.example"])
        for host in ["example", "sub.api.example", "other.example"] {
            #expect(throws: StateError.self) { try authority.leaf(for: host) }
        }
    }

    /// With the rules of RFC 5280 alone: the keys that stay sign for their host, and for nothing else.
    @Test(arguments: [
        ("api.example", true), ("other.example", false), ("api.example.evil", false), ("127.0.0.1", false),
    ])
    func aLeafForAnotherHostIsNotTrusted(_ host: String, _ isTrusted: Bool) async throws {
        // The policy asks the system's clock.
        let clock = ManualClock(wall: UnixTime(seconds: Int64(Date().timeIntervalSince1970)))
        let authority = LocalAuthority(stateDirectory: folder, key: key, clock: clock)
        try authority.cover(["api.example"])
        let signer = try #require(authority.signer(of: "api.example"))
        let leaf = try AuthorityCertificates.leaf(
            for: host,
            P256.Signing.PrivateKey(),
            signedBy: (signer.certificate, signer.key),
            at: clock.now().wall
        )
        var verifier = Verifier(rootCertificates: CertificateStore(try roots())) {
            RFC5280Policy()
            // It heeds the name, which is critical.
            ServerIdentityPolicy(serverHostname: host, serverIP: host == "127.0.0.1" ? host : nil)
        }
        let result = await verifier.validate(leaf: leaf, intermediates: CertificateStore([signer.certificate]))
        if case .validCertificate = result {
            #expect(isTrusted)
        } else {
            #expect(!isTrusted, "\(result)")
        }
    }

    @Test func aNewHostGetsASecondRootAndTheFirstStays() throws {
        let authority = open()
        try authority.cover(["api.example"])
        let issuer = try chain(authority, "api.example").issuer
        #expect(try authority.cover(["api.example", "new.example"]) == ["new.example"])
        #expect(try roots().count == 2)
        #expect(try chain(authority, "api.example").issuer == issuer)
        let again = open()
        #expect(try again.cover(["api.example", "new.example"]).isEmpty)
        #expect(try chain(again, "api.example").issuer == issuer)
    }

    @Test func aSuccessorComesBeforeTheEndAndIsUsedOnlyAfterIt() throws {
        let authority = open()
        try authority.cover(["api.example"])
        let issuer = try chain(authority, "api.example").issuer
        clock.advance(by: .seconds(90 * 86_400) - LocalAuthority.overlap)
        #expect(try authority.cover(["api.example"]) == ["api.example"])
        #expect(try chain(authority, "api.example").issuer == issuer)
        clock.advance(by: LocalAuthority.overlap)
        #expect(try chain(authority, "api.example").issuer != issuer, "also where nobody has looked since")
        #expect(try authority.cover(["api.example"]).isEmpty)
        #expect(try chain(authority, "api.example").issuer != issuer)
        #expect(try roots().count == 1)
    }

    @Test func aPermittedSuffixNeedsNoNewTrust() throws {
        let plan = LocalAuthorityPlan(permit: ["box.example"])
        let authority = open()
        #expect(
            try authority.cover(["api.box.example", "other.example"], as: plan) == ["box.example", "other.example"]
        )
        #expect(try authority.cover(["new.box.example", "box.example"], as: plan).isEmpty)
        let issuer = try chain(authority, "new.box.example").issuer
        #expect(try issuer.extensions.nameConstraints.map { Array($0.permittedDNSDomains) } == ["box.example"])
        #expect(throws: StateError.self) { try authority.leaf(for: "notbox.example") }
    }

    @Test func withoutConstraintsOneIssuerSignsForAll() throws {
        let authority = open()
        let open = LocalAuthorityPlan(isConstrained: false, days: 1)
        #expect(try authority.cover(["api.example"], as: open) == ["*"])
        #expect(try authority.cover(["api.example", "new.example"], as: open).isEmpty)
        #expect(try chain(authority, "new.example").issuer.extensions.nameConstraints == nil)
        // A key that signs for any host does not stay.
        #expect(try authority.cover(["api.example"]) == ["api.example"])
        #expect(try roots().count == 1)
        #expect(throws: StateError.self) { try authority.leaf(for: "new.example") }
    }

    @Test func aRotationEndsWhatWasBefore() throws {
        let authority = open()
        try authority.cover(["api.example"])
        let (root, issuer, generation) = (try roots(), try chain(authority, "api.example").issuer, authority.generation)
        #expect(try authority.rotate(["api.example"], as: LocalAuthorityPlan(days: 2)) == ["api.example"])
        #expect(try roots().count == 1 && roots() != root && authority.generation != generation)
        let new = try chain(authority, "api.example").issuer
        #expect(new != issuer && new.notValidAfter < issuer.notValidAfter)
    }

    @Test func anAddressIsNoName() throws {
        let authority = open()
        try authority.cover(["127.0.0.1"])
        let (leaf, issuer) = try chain(authority, "127.0.0.1")
        let bytes = ASN1OctetString(contentBytes: [127, 0, 0, 1])
        #expect(try leaf.extensions.subjectAlternativeNames.map(Array.init) == [.ipAddress(bytes)])
        #expect(try issuer.extensions.nameConstraints?.permittedIPRanges.count == 1)
    }

    @Test func anotherKeyOpensNothing() throws {
        try open().cover(["api.example"])
        let other = SymmetricKey(data: [UInt8](repeating: 8, count: 32))
        let stranger = LocalAuthority(stateDirectory: folder, key: other, clock: clock)
        #expect(throws: StateError.self) { try stranger.cover(["api.example"]) }
        #expect(throws: Never.self) { try stranger.cover([]) }
        let sealed = try Data(contentsOf: URL(fileURLWithPath: folder + "/ca/authority"))
        #expect(!String(decoding: sealed, as: UTF8.self).contains("intermediates"))
    }

    @Test func theBundleIsWrittenAgainWhereItIsGone() throws {
        let authority = open()
        try authority.cover(["api.example"])
        let before = try roots()
        try FileManager.default.removeItem(atPath: LocalAuthority.bundlePath(in: folder))
        #expect(try authority.cover(["api.example"]).isEmpty)
        #expect(try roots() == before)
    }
}
