import GatewayFiles
import GatewayHTTP
import NIOSSL

/// The TLS contexts of upstreams that are made together: one for equal settings.
///
/// Each context reads and holds every certificate of its authorities, some 150 of a system's.
package struct UpstreamTLSContexts: Sendable {
    /// What a context is made of. The server's name and its pins are looked at for each connection.
    private struct Settings: Hashable, Sendable {
        let caPath: String?
        let certificatePath: String?
        let privateKey: Secret?
        let offeredNames: [String]
        /// Whether the library compares the certificate with the server's name, or with the address that was dialled.
        let comparesName: Bool
        /// Taken before the files are read: one that is replaced meanwhile makes another context.
        private let files: [FileVersion?]

        init(_ tls: RoutePlan.TLS, _ version: UpstreamProtocol, comparesName: Bool = true) {
            self.comparesName = comparesName
            caPath = tls.caPath
            certificatePath = tls.certificatePath
            privateKey = tls.privateKey
            offeredNames = version.offeredNames
            files = [caPath, certificatePath].map { $0.flatMap(FileVersion.init) }
        }
    }

    private var known: [Settings: NIOSSLContext] = [:]

    package init() {}

    /// Reads what the routes need, which takes some milliseconds, up to the first that cannot be used: its caller is told why.
    package init(of routes: [RoutePlan]) {
        do throws(ListenerError) {
            for route in routes {
                let version = UpstreamTarget.Key(route).version
                _ = try context(of: route, in: version)
                if version != .http1 { _ = try context(of: route) }
            }
        } catch {
            return
        }
    }

    /// - Returns: nil for an upstream in clear text.
    /// - Throws: ``ListenerError`` naming the route when a certificate or key cannot be used.
    mutating func context(
        of route: RoutePlan,
        in version: UpstreamProtocol = .http1
    ) throws(ListenerError) -> NIOSSLContext? {
        guard route.upstream.scheme == .https else { return nil }
        // Behind a proxy the address that was dialled is not the server's. The target compares it then.
        let isComparedByTarget = route.proxy != nil && route.tls.serverName == nil && route.upstream.isAddress
        let settings = Settings(route.tls, version, comparesName: !isComparedByTarget)
        if let context = known[settings] { return context }
        do throws(UnusableInput) {
            let context = try Self.make(settings)
            known[settings] = context
            return context
        } catch {
            throw ListenerError("routes.\(route.name).tls: the TLS settings cannot be used: \(error.message)")
        }
    }

    /// - Returns: nil for a proxy in clear text.
    mutating func context(of proxy: ParentProxy) throws(ListenerError) -> NIOSSLContext? {
        guard proxy.origin.scheme == .https else { return nil }
        let settings = Settings(RoutePlan.TLS(caPath: proxy.caPath), .http1)
        if let context = known[settings] { return context }
        do throws(UnusableInput) {
            let context = try Self.make(settings)
            known[settings] = context
            return context
        } catch {
            throw ListenerError("proxy \(proxy): the TLS settings cannot be used: \(error.message)")
        }
    }

    private static func make(_ settings: Settings) throws(UnusableInput) -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.shutdownTimeout = Timeouts.tlsShutdown
        configuration.certificateVerification = settings.comparesName ? .fullVerification : .noHostnameVerification
        configuration.applicationProtocols = settings.offeredNames
        if let path = settings.caPath {
            // Only looked at here: of a bundle of TRUSTED CERTIFICATEs it would be the first one.
            _ = try TLSFiles.certificates(path)
            configuration.trustRoots = .file(path)
        }
        if let path = settings.certificatePath {
            configuration.certificateChain = try TLSFiles.certificates(path).map { .certificate($0) }
        }
        if let key = settings.privateKey {
            configuration.privateKey = .privateKey(try TLSFiles.privateKey(key))
        }
        return try TLSFiles.context(configuration)
    }
}
