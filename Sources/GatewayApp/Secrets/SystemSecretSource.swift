import Foundation
package import GatewayConfiguration
import GatewayFiles
package import GatewayHTTP
import GatewayTokenStores
import NIOSSL

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Secrets from the environment, files, programs and systemd of this machine.
package struct SystemSecretSource: SecretSource {
    static let largestSecret = 64 << 10

    private let variables: [String: String]
    private let isReload: Bool

    /// - Parameters:
    ///   - environment: The process's own unless told; programs are given only the ``ProgramEnvironment`` of it.
    ///   - isReload: Whether a gateway that runs reads its configuration again, for somebody who may have set a variable elsewhere.
    package init(
        environment: [String: String] = ProcessInfo.processInfo.environment,
        isReload: Bool = false
    ) {
        variables = environment
        self.isReload = isReload
    }

    /// - Parameter overlay: Variables that count before those of the process.
    package init(overlay: [String: String], isReload: Bool = false) {
        let environment = ProcessInfo.processInfo.environment.merging(overlay) { _, ours in ours }
        self.init(environment: environment, isReload: isReload)
    }

    package func unset(_ name: String) -> String {
        guard isReload else { return UnreadSecrets().unset(name) }
        return "\(name) is not set in the environment of the running gateway (process \(getpid())); set it there and "
            + "restart, because a reload cannot add variables"
    }

    package func environment(_ name: String) -> String? { variables[name] }

    package func file(_ path: String) throws(UnusableInput) -> Secret {
        let file = try read(path)
        guard file.mode & 0o066 == 0 else {
            let mode = String(file.mode, radix: 8)
            throw UnusableInput("others may read \(path) (mode \(mode)); run: chmod 600 \(path)")
        }
        guard !SealedSecret.isSealed(file.bytes) else { return try opened(file.bytes, of: path) }
        return try secret(in: file.bytes, of: path)
    }

    package func program(_ program: SecretProgram) throws(UnusableInput) -> Secret {
        try self.program(program, isCancelled: { false })
    }

    /// - Parameter isCancelled: Asked ten times a second.
    func program(_ program: SecretProgram, isCancelled: () -> Bool) throws(UnusableInput) -> Secret {
        let output: [UInt8]
        do throws(SpawnedProgram.Failure) {
            output = try SpawnedProgram.output(
                of: program.command,
                environment: SystemProgramRunner.environment(
                    variables,
                    adding: program.environment.map { ($0.key, $0.value) }
                ),
                limit: Self.largestSecret,
                timeout: program.timeout,
                isCancelled: isCancelled
            )
        } catch {
            throw UnusableInput("\(program.name) \(error.message)")
        }
        return try secret(in: output, of: program.name)
    }

    package func systemdCredential(_ name: String) throws(UnusableInput) -> Secret {
        guard let folder = variables["CREDENTIALS_DIRECTORY"] else {
            let advice = "add LoadCredential=\(name):… to the unit, or run check with --no-secrets outside of it"
            throw UnusableInput("CREDENTIALS_DIRECTORY is not set, so systemd passes no credentials; \(advice)")
        }
        guard !name.contains("/"), name != ".", name != ".." else {
            throw UnusableInput("the name of a systemd credential has no slash")
        }
        let path = "\(folder)/\(name)"
        return try secret(in: try read(path).bytes, of: path)
    }

    package func userID(ofName name: String) -> UInt32? {
        var entry = unsafe passwd()
        var found: UnsafeMutablePointer<passwd>?
        let capacity = 16 << 10
        let buffer = UnsafeMutablePointer<CChar>.allocate(capacity: capacity)
        defer { unsafe buffer.deallocate() }
        guard unsafe getpwnam_r(name, &entry, buffer, capacity, &found) == 0, unsafe found != nil else { return nil }
        return unsafe entry.pw_uid
    }

    package func openPrivateKey(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? {
        PrivateKeyOpener.open(pem, passphrase: passphrase)
    }

    package func certificates(_ path: String) throws(UnusableInput) -> String {
        let text = String(decoding: try read(path).bytes, as: UTF8.self)
        guard CertificateReader.holdsCertificates(text) else {
            throw UnusableInput("\(path) holds no certificate in PEM (\"-----BEGIN CERTIFICATE-----\")")
        }
        return text
    }

    package func publicText(_ path: String) throws(UnusableInput) -> String {
        String(decoding: try read(path).bytes, as: UTF8.self)
    }

    package func fits(_ tls: ClientTLS) -> Bool { CertificateReader.fits(tls) }

    private func read(_ path: String) throws(UnusableInput) -> BoundedFile {
        do throws(BoundedFile.Failure) {
            return try BoundedFile.read(path, limit: Self.largestSecret)
        } catch {
            throw UnusableInput("\(path): \(error.message)")
        }
    }

    /// A file that ``SecretFiles`` has encrypted.
    private func opened(_ content: [UInt8], of path: String) throws(UnusableInput) -> Secret {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        let keyPath = (parts.dropLast(2) + [SealedSecret.keyName]).joined(separator: "/")
        let key: InstallationKey?
        do throws(StateError) {
            key = try InstallationKey.load(path: keyPath)
        } catch {
            throw UnusableInput("\(path) is encrypted: \(error)")
        }
        guard let key else { throw UnusableInput("\(path) is encrypted with \(keyPath), which is not there") }
        guard let secret = SealedSecret.open(content, named: parts.last ?? "", with: key) else {
            throw UnusableInput("\(path) was changed or moved, or is encrypted with another key than \(keyPath)")
        }
        return secret
    }

    /// One newline at the end belongs to the file and not to the secret.
    private func secret(in bytes: [UInt8], of name: String) throws(UnusableInput) -> Secret {
        var bytes = bytes
        if bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
        if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UnusableInput("\(name): the secret is not text (UTF-8)")
        }
        return Secret(text)
    }
}

/// The configuration's files on this machine.
package struct SystemConfigFiles: ConfigFileSource {
    package init() {}

    package func absolutePath(_ path: String) -> String {
        guard !path.hasPrefix("/") else { return path }
        let folder = FileManager.default.currentDirectoryPath
        let relative = path.hasPrefix("./") ? String(path.dropFirst(2)) : path
        return folder.hasSuffix("/") ? folder + relative : "\(folder)/\(relative)"
    }

    /// A file that is too large is cut at the limit; the loader then refuses it with its own words.
    package func read(_ path: String, limit: Int) throws(ConfigFileError) -> [UInt8] {
        do throws(BoundedFile.Failure) {
            return try BoundedFile.read(path, limit: limit).bytes
        } catch {
            switch error {
            case .tooLarge: throw ConfigFileError("the file is larger than \(ConfigUnits.text(bytes: limit - 1))")
            case .missing:
                throw ConfigFileError(
                    "no such file",
                    advice: "write one with authgateway init, or name another one with --config"
                )
            default: throw ConfigFileError("cannot be read: \(error.message)")
            }
        }
    }

    package func places(on path: String) -> [FilePlace] {
        PathPlace.all(on: path).map { place in
            FilePlace(
                path: place.path,
                kind: place.isFolder ? .folder : .file,
                mode: place.mode,
                isOnReadOnlyMount: place.isOnReadOnlyMount,
                strangerInSharedFolder: place.strangerInSharedFolder
            )
        }
    }

    package func names(in folder: String) -> [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    }
}

/// Tries certificates with BoringSSL before anything depends on them.
private enum CertificateReader {
    /// - Returns: false for what is not PEM, or holds no certificate.
    static func holdsCertificates(_ pem: String) -> Bool {
        let certificates = try? NIOSSLCertificate.fromPEMBytes(Array(pem.utf8))
        return !(certificates ?? []).isEmpty
    }

    static func fits(_ tls: ClientTLS) -> Bool {
        do {
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.certificateChain = try NIOSSLCertificate.fromPEMBytes(Array(tls.certificates.utf8)).map {
                .certificate($0)
            }
            let key = tls.privateKey.text.withValue { Base64.decodeURL($0) } ?? []
            configuration.privateKey = .privateKey(try NIOSSLPrivateKey(bytes: key, format: .der))
            _ = try NIOSSLContext(configuration: configuration)
            return true
        } catch {
            return false
        }
    }
}

/// Opens private keys with BoringSSL: the strategies only ever see them without their encryption.
private enum PrivateKeyOpener {
    static func open(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? {
        let phrase = passphrase?.withValue { Array($0.utf8) } ?? []
        // Always with a callback: without one BoringSSL asks the terminal.
        let key = pem.withValue { text in
            try? NIOSSLPrivateKey(bytes: Array(text.utf8), format: .pem) { $0(phrase) }
        }
        return (try? key?.derBytes).map { PrivateKeyDER($0) }
    }
}
