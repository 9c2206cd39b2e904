import Crypto
import Foundation
package import GatewayFiles
import GatewayHTTP
import GatewayProxy
import SwiftASN1
import X509

/// The files of the local authority: `authority` with the sealed keys, and `ca.pem` with the roots for those who trust them.
struct AuthorityFile: Sendable {
    struct Content: Codable, Sendable {
        /// Oldest first.
        var roots: [Root] = []
    }

    struct Root: Codable, Sendable {
        /// DER.
        var certificate: Data
        var endsAtMilliseconds: Int64
        /// By host.
        var intermediates: [String: Intermediate]

        var endsAt: UnixTime { UnixTime(milliseconds: endsAtMilliseconds) }

        /// A key that signs for any host does not stay where the configuration wants constraints.
        func isAllowed(by plan: LocalAuthorityPlan) -> Bool {
            !plan.isConstrained || intermediates[LocalAuthorityPlan.anyHost] == nil
        }

        init(certificate: Data, endsAt: UnixTime, intermediates: [String: Intermediate]) {
            self.certificate = certificate
            endsAtMilliseconds = endsAt.milliseconds
            self.intermediates = intermediates
        }
    }

    struct Intermediate: Codable, Sendable {
        /// DER.
        var certificate: Data
        /// The raw key of P-256.
        var key: Data
    }

    let folder: String
    let key: SymmetricKey

    var path: String { folder + "/authority" }
    var bundlePath: String { folder + "/ca.pem" }
    private static let limit = 16 << 20
    private static let purpose = Data("authgateway local authority 1".utf8)

    func read() throws(StateError) -> Content {
        let sealed = try StateError.explaining(
            "the local CA \(path) cannot be used",
            try PrivateFile.readSecret(path, limit: Self.limit)
        )
        guard let sealed else { return Content() }
        guard let box = try? AES.GCM.SealedBox(combined: sealed),
            let plain = try? AES.GCM.open(box, using: key, authenticating: Self.purpose),
            let content = try? JSONDecoder().decode(Content.self, from: plain)
        else {
            let advice = "restore that key, or remove the file: a new CA is created, which must be trusted again"
            throw StateError("the local CA \(path) was not sealed with the installation key; \(advice)")
        }
        return content
    }

    func write(_ content: Content) throws(StateError) {
        do {
            let plain = try JSONEncoder().encode(content)
            let box = try AES.GCM.seal(plain, using: key, authenticating: Self.purpose)
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            try PrivateFile.replace(path, with: Array(box.combined ?? Data()))
        } catch {
            throw StateError("the local CA in \(folder) cannot be stored: \(error)")
        }
    }

    /// What people trust. It may have been removed, or be that of before a crash.
    func writeBundle(of content: Content) throws(StateError) {
        let roots = content.roots.map { root in
            PEMDocument(type: "CERTIFICATE", derBytes: Array(root.certificate)).pemString
        }
        let text = Array((roots.joined(separator: "\n") + "\n").utf8)
        do throws(PrivateFile.Failure) {
            if try PrivateFile.readSecret(bundlePath, limit: Self.limit) != text {
                try PrivateFile.replace(bundlePath, with: text)
            }
        } catch {
            throw StateError(
                "the certificates of the local CA, \(bundlePath), cannot be written: \(error.reason)"
            )
        }
        try ClientTrustFiles(authorityFolder: folder).renew(own: String(decoding: text, as: UTF8.self))
    }
}

/// The certificates of the local authority as everybody may see them, without its keys.
package enum AuthorityRoots {
    package struct Root: Sendable {
        package let root: AuthorityTrust.Root
        package let der: [UInt8]
        package let pem: String
    }

    /// The maximum size of the file with the certificates.
    package static let limit = 16 << 20

    /// - Returns: Empty when there is no authority.
    package static func read(in stateDirectory: String) throws(StateError) -> [Root] {
        let path = LocalAuthority.bundlePath(in: stateDirectory)
        let bytes: [UInt8]
        do throws(BoundedFile.Failure) {
            bytes = try BoundedFile.read(path, limit: limit).bytes
        } catch {
            if error == .missing { return [] }
            throw StateError("the certificates of the local CA, \(path), cannot be read: \(error.message)")
        }
        do {
            return try PEMDocument.parseMultiple(pemString: String(decoding: bytes, as: UTF8.self)).map(root)
        } catch {
            throw StateError("the certificates \(path) are damaged; a gateway writes new ones when it starts")
        }
    }

    private static func root(_ document: PEMDocument) throws -> Root {
        let certificate = try Certificate(derEncoded: document.derBytes)
        let names = certificate.subject.flatMap { Array($0) }.filter { $0.type == .RDNAttributeType.commonName }
        return Root(
            root: AuthorityTrust.Root(
                name: names.first.map { String(describing: $0.value) } ?? "without a name",
                endsAt: UnixTime(seconds: Int64(certificate.notValidAfter.timeIntervalSince1970)),
                fingerprint: Hexadecimal.text(of: SHA256.hash(data: document.derBytes))
            ),
            der: document.derBytes,
            pem: document.pemString + "\n"
        )
    }
}
