import GatewayFiles
package import GatewayHTTP
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
    /// The certificates of a PEM file, at least one.
    ///
    /// - Throws: ``UnusableInput``; also where reading could wait, as for a pipe.
    static func certificates(_ path: String) throws(UnusableInput) -> [NIOSSLCertificate] {
        let descriptor = unsafe open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { throw UnusableInput("\(path): \(SystemError.text())") }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw UnusableInput("\(path): not a regular file")
        }
        guard let certificates = try? NIOSSLCertificate.fromPEMFile(path), !certificates.isEmpty else {
            throw UnusableInput("\(path): holds no certificate (PEM) that can be read")
        }
        return certificates
    }

    static func privateKey(_ secret: Secret) throws(UnusableInput) -> NIOSSLPrivateKey {
        guard let key = try? secret.withValue({ try NIOSSLPrivateKey(bytes: Array($0.utf8), format: .pem) }) else {
            throw UnusableInput("private_key: cannot be read; it must be PEM and have no passphrase")
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
    ) throws(UnusableInput) -> NIOSSLContext {
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

    static func context(_ configuration: TLSConfiguration) throws(UnusableInput) -> NIOSSLContext {
        do {
            return try NIOSSLContext(configuration: configuration)
        } catch NIOSSLError.failedToLoadPrivateKey {
            throw UnusableInput("private_key: does not belong to the certificate")
        } catch BoringSSLError.unknownError(_) where configuration.usesSystemAuthorities {
            // The library finds no list of them, and has no words for it.
            throw UnusableInput(
                "this machine has no CA certificates; install the package ca-certificates, or "
                    + "name a file in tls.ca"
            )
        } catch {
            throw UnusableInput("\(error)")
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

/// What is agreed on by ALPN (RFC 7301).
enum ApplicationProtocol {
    static let http2 = "h2"
    static let http1 = "http/1.1"
    /// The protocols that clients are offered, the preferred one first.
    static let served = [http2, http1]
}

/// When certificates end.
package enum CertificateValidity {
    /// When the certificates of a PEM file are valid: those of the one that expires first. nil if the file cannot be read.
    package static func ofFile(_ path: String) -> (start: UnixTime, end: UnixTime)? {
        of((try? TLSFiles.certificates(path)) ?? [])
    }

    package static func ofText(_ pem: String) -> (start: UnixTime, end: UnixTime)? {
        of((try? NIOSSLCertificate.fromPEMBytes(Array(pem.utf8))) ?? [])
    }

    private static func of(_ chain: [NIOSSLCertificate]) -> (start: UnixTime, end: UnixTime)? {
        guard let first = chain.min(by: { $0.notValidAfter < $1.notValidAfter }) else { return nil }
        return (UnixTime(seconds: Int64(first.notValidBefore)), UnixTime(seconds: Int64(first.notValidAfter)))
    }
}

/// The certificate that a client shows on a listener with `tls.client_ca`.
struct PeerCertificate {
    private let tls: NIOSSLServerHandler

    init(_ tls: NIOSSLServerHandler) { self.tls = tls }

    /// - Returns: nil where the listener asks clients for no certificate.
    init?(_ plan: ListenerPlan.TLS?, _ tls: NIOSSLServerHandler) {
        guard plan?.clientCAPath != nil else { return nil }
        self.tls = tls
    }

    /// What it names, when the handshake is over. The library has verified it against `client_ca`.
    ///
    /// - Returns: nil without a certificate. Also for one that has ended: a resumed session verifies none.
    func identity(at now: UnixTime) -> PeerIdentity? {
        guard let leaf = tls.peerCertificate, UnixTime(seconds: Int64(leaf.notValidAfter)) >= now else { return nil }
        let names = leaf._subjectAlternativeNames()
        guard names.count <= PeerIdentity.maximumNames else { return nil }
        return PeerIdentity(
            names.compactMap { name in
                switch name.nameType {
                case .dnsName: PeerIdentity.Name(dns: Array(name.contents))
                case .uri: PeerIdentity.Name(uri: Array(name.contents))
                default: nil
                }
            }
        )
    }
}
