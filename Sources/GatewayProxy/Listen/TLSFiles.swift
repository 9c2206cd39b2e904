import GatewayCore
import GatewayFiles
import NIOSSL

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Certificates and keys that a configuration names, with words for what is wrong with them.
enum TLSFiles {
    struct Problem: Error, CustomStringConvertible {
        let description: String
    }

    /// The certificates of a PEM file, at least one.
    ///
    /// - Throws: ``Problem``; also where reading could wait, as for a pipe.
    static func certificates(_ path: String) throws(Problem) -> [NIOSSLCertificate] {
        let descriptor = unsafe open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { throw Problem(description: "\(path): \(SystemError.text())") }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw Problem(description: "\(path): not a regular file")
        }
        guard let certificates = try? NIOSSLCertificate.fromPEMFile(path), !certificates.isEmpty else {
            throw Problem(description: "\(path): holds no certificate (PEM) that can be read")
        }
        return certificates
    }

    static func privateKey(_ secret: Secret) throws(Problem) -> NIOSSLPrivateKey {
        guard let key = try? secret.withValue({ try NIOSSLPrivateKey(bytes: Array($0.utf8), format: .pem) }) else {
            throw Problem(description: "private_key: cannot be read; it must be PEM and have no passphrase")
        }
        return key
    }

    /// What TLS connections of clients are accepted with.
    ///
    /// - Parameters:
    ///   - clientCAs: nil asks clients for no certificate.
    ///   - protocols: By ALPN.
    ///   - needsCertificate: A client without a certificate is refused.
    static func serverContext(
        _ plan: ListenerPlan.TLS,
        _ clientCAs: [NIOSSLCertificate]?,
        protocols: [String] = ApplicationProtocol.served,
        needsCertificate: Bool = true
    ) throws(Problem) -> NIOSSLContext {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try certificates(plan.certificatePath).map { .certificate($0) },
            privateKey: .privateKey(try privateKey(plan.privateKey))
        )
        configuration.minimumTLSVersion = .tlsv12
        configuration.shutdownTimeout = Timeouts.tlsShutdown
        configuration.applicationProtocols = protocols
        if let clientCAs {
            configuration.trustRoots = .certificates(clientCAs)
            configuration.certificateVerification = needsCertificate ? .noHostnameVerification : .optionalVerification
        }
        return try context(configuration)
    }

    static func context(_ configuration: TLSConfiguration) throws(Problem) -> NIOSSLContext {
        do {
            return try NIOSSLContext(configuration: configuration)
        } catch NIOSSLError.failedToLoadPrivateKey {
            throw Problem(description: "private_key: does not belong to the certificate")
        } catch BoringSSLError.unknownError(_) where configuration.usesSystemAuthorities {
            // The library finds no list of them, and has no words for it.
            throw Problem(
                description: "this machine has no certificates of authorities; install the package ca-certificates, or "
                    + "name a file in tls.ca"
            )
        } catch {
            throw Problem(description: "\(error)")
        }
    }
}

extension TLSConfiguration {
    fileprivate var usesSystemAuthorities: Bool {
        switch trustRoots {
        case nil, .default?: certificateVerification != .none
        default: false
        }
    }
}
