import Crypto
import Foundation
package import GatewayFiles
import GatewayHTTP

/// The files that programs are pointed to so that they trust the local authority, besides what they trusted before.
///
/// They are written anew with the authority: a program that runs finds its new certificates.
package struct ClientTrustFiles: Sendable {
    /// Where systems keep the certificates that they trust.
    package static let systemBundles = [
        "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
    ]
    private static let limit = 16 << 20
    /// One for each set of files that environments named before.
    private static let maximumBundles = 32

    private let authorityFolder: String
    private let ownPath: String
    private let folder: String
    private let systemBundles: [String]

    package init(stateDirectory: String, systemBundles: [String] = Self.systemBundles) {
        self.init(authorityFolder: stateDirectory + "/ca", systemBundles: systemBundles)
    }

    /// - Parameter authorityFolder: The one of a state directory or, for ``write(copying:adding:)``, any folder of this user.
    package init(authorityFolder: String, systemBundles: [String] = Self.systemBundles) {
        self.authorityFolder = authorityFolder
        ownPath = authorityFolder + "/ca.pem"
        folder = authorityFolder + "/trust"
        self.systemBundles = systemBundles
    }

    /// - Parameter earlier: The files with certificates that the environment names.
    /// - Returns: nil when there is no authority.
    package func write(adding earlier: [String]) throws(StateError) -> ClientEnvironment.Trust? {
        guard var own = try own() else { return nil }
        let others = earlier.filter { $0 != ownPath && $0 != folder + "/bundle.pem" }
        let path = folder + "/\(name(for: others)).pem"
        var texts: [String] = []
        for other in try [system(orAny: others)].compactMap(\.self) + others {
            texts += [try text(of: other)].compactMap(\.self)
        }
        try createFolder()
        // The gateway may write a new authority meanwhile.
        repeat {
            try replace(path, with: TrustBundle.merged(texts, own: own))
            guard let now = try self.own(), now != own else { break }
            own = now
        } while true
        dropOldest()
        return ClientEnvironment.Trust(bundle: path, own: ownPath, javaStore: Self.javaStore(of: path))
    }

    /// For a gateway whose files this user cannot read.
    ///
    /// - Parameter own: The certificates of its authority (PEM).
    package func write(copying own: String, adding earlier: [String]) throws(StateError) -> ClientEnvironment.Trust {
        let certificates = PEM.certificates(in: own)
        guard !certificates.isEmpty, certificates.allSatisfy({ Data(base64Encoded: $0) != nil }) else {
            throw StateError("the gateway sent no certificates")
        }
        // Nothing else that it sent: one line that is none of a certificate can make programs refuse the whole file.
        let text = certificates.map { PEM.text(ofCertificate: $0) }.joined()
        do throws(PrivateFile.Failure) {
            try PrivateFile.ensureFolder(authorityFolder)
            try PrivateFile.ensureFolder(folder)
            try PrivateFile.replace(ownPath, with: Array(text.utf8), mode: 0o400)
        } catch {
            throw StateError("the certificates of the gateway, \(ownPath), cannot be written: \(error.reason)")
        }
        guard let trust = try write(adding: earlier) else { throw StateError("\(ownPath) was removed") }
        return trust
    }

    /// After the authority was written: puts its certificates into all bundles.
    func renew(own: String) throws(StateError) {
        for path in bundles() {
            guard let text = try text(of: path), let renewed = TrustBundle.renewed(text, own: own) else { continue }
            try replace(path, with: renewed)
        }
    }

    private func createFolder() throws(StateError) {
        do {
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw StateError(
                "the folder \(folder) for the certificates of clients cannot be created"
            )
        }
    }

    private func own() throws(StateError) -> String? {
        guard let text = try text(of: ownPath) else { return nil }
        return PEM.certificates(in: text).isEmpty ? nil : text
    }

    private func name(for earlier: [String]) -> String {
        guard !earlier.isEmpty else { return "bundle" }
        let digest = SHA256.hash(data: Data(earlier.joined(separator: "\n").utf8))
        return "bundle-" + digest.prefix(6).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    /// - Returns: nil when there is none, and the environment names others.
    private func system(orAny earlier: [String]) throws(StateError) -> String? {
        if let found = systemBundles.first(where: { FileIdentity($0) != nil }) { return found }
        guard earlier.isEmpty else { return nil }
        throw StateError(
            "the certificates that this machine trusts were not found (\(systemBundles.joined(separator: ", "))); install "
                + "ca-certificates, or name a file with SSL_CERT_FILE"
        )
    }

    /// - Returns: nil when there is no such file: those who read it did without it.
    private func text(of path: String) throws(StateError) -> String? {
        do throws(BoundedFile.Failure) {
            return String(decoding: try BoundedFile.read(path, limit: Self.limit).bytes, as: UTF8.self)
        } catch {
            if error == .missing { return nil }
            throw StateError("the certificates \(path) cannot be read: \(error.message)")
        }
    }

    private func replace(_ path: String, with text: String) throws(StateError) {
        let store = Self.javaStore(of: path)
        do throws(PrivateFile.Failure) {
            let known = try PrivateFile.readSecret(path, limit: Self.limit)
            if known == Array(text.utf8), FileIdentity(store) != nil { return }
            let certificates = PEM.certificates(in: text)
            try PrivateFile.replace(store, with: JavaTrustStore.bytes(of: certificates), mode: 0o400)
            try PrivateFile.replace(path, with: Array(text.utf8), mode: 0o400)
        } catch {
            throw StateError("the certificates for clients, \(path), cannot be written: \(error.reason)")
        }
    }

    private static func javaStore(of path: String) -> String { String(path.dropLast(4)) + ".p12" }

    private func bundles() -> [String] {
        PrivateFile.names(beside: folder + "/x").filter { $0.hasPrefix("bundle") && $0.hasSuffix(".pem") }.map {
            "\(folder)/\($0)"
        }
    }

    private func dropOldest() {
        let dated = bundles().map { path in
            (
                path,
                (try? FileManager.default.attributesOfItem(atPath: path))?[.modificationDate] as? Date ?? .distantPast
            )
        }
        guard dated.count > Self.maximumBundles else { return }
        for (path, _) in dated.sorted(by: { $0.1 < $1.1 }).prefix(dated.count - Self.maximumBundles) {
            _ = PrivateFile.remove(path)
            _ = PrivateFile.remove(Self.javaStore(of: path))
        }
    }
}
