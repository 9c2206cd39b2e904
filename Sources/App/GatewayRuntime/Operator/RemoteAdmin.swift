import GatewayCore
import NIOSSL

/// The admin listener of a gateway on another machine, and what proves who asks it.
package struct RemoteAdmin: Sendable {
    /// Each stands for an option that is not given.
    private enum Variable: String {
        case admin = "AUTHGATEWAY_ADMIN"
        case tokenFile = "AUTHGATEWAY_ADMIN_TOKEN_FILE"
        case ca = "AUTHGATEWAY_ADMIN_CA"
        case certificate = "AUTHGATEWAY_ADMIN_CERTIFICATE"
        case key = "AUTHGATEWAY_ADMIN_KEY"

        var value: String? { Console.environment(rawValue).flatMap { $0.isEmpty ? nil : $0 } }
    }

    let origin: Origin
    /// nil where a certificate proves it.
    let token: Secret?
    let tls: TLSConfiguration

    /// - Parameters:
    ///   - url: What `--admin` says.
    ///   - tokenFile: What `--admin-token-file` says.
    ///   - isLocal: A configuration was named, so that a variable of the environment does not count.
    /// - Returns: nil where the gateway of this machine is meant.
    package static func find(
        url: String?,
        tokenFile: String?,
        isLocal: Bool
    ) throws(CommandFailure) -> RemoteAdmin? {
        if url != nil, isLocal {
            throw CommandFailure(.usage, "name the gateway once: with --config, or with --admin")
        }
        guard let url = url ?? (isLocal ? nil : Variable.admin.value) else {
            guard tokenFile == nil else {
                throw CommandFailure(.usage, "--admin-token-file goes with --admin https://HOST:PORT")
            }
            return nil
        }
        return try RemoteAdmin(url, tokenFile: tokenFile ?? Variable.tokenFile.value)
    }

    private init(_ url: String, tokenFile: String?) throws(CommandFailure) {
        let prefix = "https://"
        guard url.lowercased().hasPrefix(prefix) else {
            throw CommandFailure(.usage, "expected https://HOST:PORT for --admin, found \(LogText.clean(url))")
        }
        var authority = url.dropFirst(prefix.count)
        if authority.last == "/" { authority.removeLast() }
        guard let origin = Origin(scheme: .https, authority: String(authority)) else {
            throw CommandFailure(.usage, "expected https://HOST:PORT for --admin, found \(LogText.clean(url))")
        }
        self.origin = origin
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        if let ca = Variable.ca.value { tls.trustRoots = .file(ca) }
        switch (Variable.certificate.value, Variable.key.value) {
        case (nil, nil): break
        case (let certificate?, let key?):
            do {
                tls.certificateChain = try NIOSSLCertificate.fromPEMFile(certificate).map { .certificate($0) }
                tls.privateKey = .privateKey(try NIOSSLPrivateKey(file: key, format: .pem))
            } catch {
                let files = "\(LogText.clean(certificate)), \(LogText.clean(key))"
                throw CommandFailure(.failed, "the certificate and key of the operator cannot be read: \(files)")
            }
        default:
            let names = "\(Variable.certificate.rawValue) and \(Variable.key.rawValue)"
            throw CommandFailure(.usage, "\(names) go together")
        }
        self.tls = tls
        token = try tokenFile.map { (path) throws(CommandFailure) in try Self.token(path) }
    }

    private static func token(_ path: String) throws(CommandFailure) -> Secret {
        guard let text = StateFile.read(path) else {
            throw CommandFailure(.failed, "\(LogText.clean(path)) cannot be read")
        }
        let token = text.filter { !$0.isWhitespace }
        guard !token.isEmpty, token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw CommandFailure(.failed, "\(LogText.clean(path)) holds no token")
        }
        return Secret(token)
    }
}
