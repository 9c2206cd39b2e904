import Crypto
import Foundation
import GatewayCore
import GatewayFiles
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

    func read() throws(LeafError) -> Content {
        let sealed: [UInt8]?
        do {
            sealed = try PrivateFile.readSecret(path, limit: Self.limit)
        } catch {
            throw LeafError("the local authority \(path) cannot be used: \(error.reason)")
        }
        guard let sealed else { return Content() }
        guard let box = try? AES.GCM.SealedBox(combined: sealed),
            let plain = try? AES.GCM.open(box, using: key, authenticating: Self.purpose),
            let content = try? JSONDecoder().decode(Content.self, from: plain)
        else {
            let advice = "restore that key, or remove the file: a new authority is made, which has to be trusted again"
            throw LeafError("the local authority \(path) was not sealed with the installation key; \(advice)")
        }
        return content
    }

    func write(_ content: Content) throws(LeafError) {
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
            throw LeafError("the local authority in \(folder) cannot be stored: \(error)")
        }
    }

    /// What people trust. It may have been removed, or be that of before a crash.
    func writeBundle(of content: Content) throws(LeafError) {
        let roots = content.roots.map { root in
            PEMDocument(type: "CERTIFICATE", derBytes: Array(root.certificate)).pemString
        }
        let text = Array((roots.joined(separator: "\n") + "\n").utf8)
        do throws(PrivateFile.Failure) {
            if try PrivateFile.readSecret(bundlePath, limit: Self.limit) != text {
                try PrivateFile.replace(bundlePath, with: text)
            }
        } catch {
            throw LeafError(
                "the certificates of the local authority, \(bundlePath), cannot be written: \(error.reason)"
            )
        }
        try ClientTrustFiles(authorityFolder: folder).renew(own: String(decoding: text, as: UTF8.self))
    }
}
