package import GatewayApp
import GatewayHTTP
import GatewayProxy
import NIOSSL

/// The admin listener that `--admin` names, and what proves who asks it.
package struct NamedAdmin: Sendable {
    /// Each stands for an option that is not given.
    private enum Variable: String {
        case admin = "AUTHGATEWAY_ADMIN"
        case tokenFile = "AUTHGATEWAY_ADMIN_TOKEN_FILE"
        case ca = "AUTHGATEWAY_ADMIN_CA"
        case certificate = "AUTHGATEWAY_ADMIN_CERTIFICATE"
        case key = "AUTHGATEWAY_ADMIN_KEY"

        var value: String? { Console.environment(rawValue).flatMap { $0.isEmpty ? nil : $0 } }
    }

    let address: ListenerPlan.Address
    /// nil where a certificate proves it, or where nothing is to be changed.
    let token: Secret?
    /// nil on this machine, where no other one listens in.
    let tls: TLSConfiguration?
    /// Whether a person named it, and not a gateway of another user.
    let isTyped: Bool

    /// What another user's gateway of this machine recorded of itself. No token is sent there.
    init(recorded address: ListenerPlan.Address) {
        self.address = address
        token = nil
        tls = nil
        isTyped = false
    }

    /// The address as people read it, and as `--admin` takes it.
    var place: String { BoundListener(address: address, port: nil, isTLS: tls != nil).boundText }

    /// The name of the other machine; nil on this one.
    var remoteHost: String? {
        guard case .tcp(let host, let port) = address else { return nil }
        return Origin(scheme: .https, host: host, port: port).isLoopback ? nil : host
    }

    /// - Parameters:
    ///   - address: What `--admin` says.
    ///   - tokenFile: What `--admin-token-file` says.
    ///   - hasConfiguration: A configuration was named, so that a variable of the environment does not count.
    /// - Returns: nil where the gateway of a configuration is meant.
    package static func find(
        address: String?,
        tokenFile: String?,
        hasConfiguration: Bool
    ) throws(CommandFailure) -> NamedAdmin? {
        if address != nil, hasConfiguration {
            throw CommandFailure(.usage, "name the gateway once: with --config, or with --admin")
        }
        let variable = hasConfiguration ? nil : Variable.admin.value
        guard let text = address ?? variable else {
            guard tokenFile == nil else {
                throw CommandFailure(.usage, "--admin-token-file goes with --admin")
            }
            return nil
        }
        let tokenFile = tokenFile ?? Variable.tokenFile.value
        guard let local = ListenerPlan.Address(localAdmin: text) else {
            return try NamedAdmin(text, tokenFile: tokenFile)
        }
        // Any user can listen at a port, so only who types the address says that the token may go there.
        if case .tcp = local, address == nil {
            let name = Variable.admin.rawValue
            throw CommandFailure(.usage, "\(name) takes https://HOST:PORT or unix:PATH; type http:// with --admin")
        }
        return try NamedAdmin(local, tokenFile: tokenFile)
    }

    private init(_ address: ListenerPlan.Address, tokenFile: String?) throws(CommandFailure) {
        self.address = address
        isTyped = true
        tls = nil
        token = try Self.token(tokenFile)
    }

    private init(_ url: String, tokenFile: String?) throws(CommandFailure) {
        let prefix = "https://"
        var authority = url.dropFirst(prefix.count)
        if authority.last == "/" { authority.removeLast() }
        guard url.lowercased().hasPrefix(prefix), let origin = Origin(scheme: .https, authority: String(authority))
        else {
            let forms = "https://HOST:PORT, http://127.0.0.1:PORT or unix:PATH"
            throw CommandFailure(.usage, "expected \(forms) for --admin, found \(LogText.clean(url))")
        }
        address = .tcp(host: origin.host, port: origin.port)
        isTyped = true
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
        token = try Self.token(tokenFile)
    }

    private static func token(_ path: String?) throws(CommandFailure) -> Secret? {
        guard let path else { return nil }
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
