import Foundation
import GatewayConfiguration
import GatewayHTTP
import NIOSSL
import Testing

@testable import GatewayProxy

@Suite("TLS contexts of upstreams", .timeLimit(.minutes(1)))
final class UpstreamTLSContextsTests {
    private let folder = FileManager.default.temporaryDirectory.appending(path: "contexts-\(UUID().uuidString)")
    private let ca: String
    private let certificate: String

    init() throws {
        ca = folder.appending(path: "ca.pem").path
        certificate = folder.appending(path: "certificate.pem").path
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        for path in [ca, certificate] { try Self.write(path) }
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    private static func write(_ path: String) throws {
        try TLSListenerTests.certificate.write(toFile: path, atomically: true, encoding: .utf8)
    }

    private func route(
        _ name: String = "first",
        _ host: String = "one.example",
        scheme: Origin.Scheme = .https,
        _ change: (inout RoutePlan.TLS) -> Void = { _ in }
    ) -> RoutePlan {
        var tls = RoutePlan.TLS(
            caPath: ca,
            certificatePath: certificate,
            privateKey: Secret(TLSListenerTests.key)
        )
        change(&tls)
        return RoutePlan(
            name: name,
            upstream: Origin(scheme: scheme, host: host, port: 443),
            upstreamPath: "",
            matchPath: "/\(name)",
            matchHosts: [],
            credential: nil,
            tls: tls,
            span: SourceSpan(file: 0, line: 1, column: 1)
        )
    }

    private func context(
        _ contexts: inout UpstreamTLSContexts,
        _ route: RoutePlan,
        in version: UpstreamProtocol = .http1
    ) throws -> NIOSSLContext {
        let context = try contexts.context(of: route, in: version)
        return try #require(context)
    }

    @Test func routesWithEqualSettingsShareOneWhateverTheirHosts() throws {
        var contexts = UpstreamTLSContexts()
        let first = try context(&contexts, route())
        #expect(try context(&contexts, route("second", "two.example")) === first)
        #expect(try context(&contexts, route()) === first)
    }

    /// They are looked at for each connection.
    @Test func theNameOfTheServerAndItsPinsMakeNoOther() throws {
        var contexts = UpstreamTLSContexts()
        let first = try context(&contexts, route())
        #expect(try context(&contexts, route { $0.serverName = "other.example" }) === first)
        #expect(try context(&contexts, route { $0.pins = [CertificatePin(digest: [1])] }) === first)
    }

    /// The address that is dialled is the proxy's.
    @Test func behindAProxyTheTargetComparesAnAddress() throws {
        var contexts = UpstreamTLSContexts()
        var plan = route("address", "10.0.0.1")
        let direct = try context(&contexts, plan)
        plan.proxy = try ParentProxy("http://127.0.0.1:3128")
        #expect(try context(&contexts, plan) !== direct)
        plan.tls.serverName = "one.example"
        #expect(try context(&contexts, plan) === direct)
    }

    enum Setting: CaseIterable {
        case ca, certificate, key

        func change(_ tls: inout RoutePlan.TLS, _ path: String) {
            switch self {
            case .ca: tls.caPath = path
            case .certificate: tls.certificatePath = path
            // The same key in another text, so that it belongs to the certificate.
            case .key: tls.privateKey = Secret(TLSListenerTests.key + "\n")
            }
        }
    }

    @Test(arguments: Setting.allCases)
    func anotherFileOrKeyMakesAnother(_ setting: Setting) throws {
        let path = folder.appending(path: "other.pem").path
        try Self.write(path)
        var contexts = UpstreamTLSContexts()
        let first = try context(&contexts, route())
        let other = try context(&contexts, route { setting.change(&$0, path) })
        #expect(other !== first)
        #expect(try context(&contexts, route("second") { setting.change(&$0, path) }) === other)
        #expect(try context(&contexts, route()) === first)
    }

    @Test func eachVersionOfHTTPHasItsOwn() throws {
        var contexts = UpstreamTLSContexts()
        let all = try UpstreamProtocol.allCases.map { try context(&contexts, route(), in: $0) }
        #expect(Set(all.map { ObjectIdentifier($0) }).count == 3)
        let again = try UpstreamProtocol.allCases.map { try context(&contexts, route(), in: $0) }
        #expect(zip(all, again).allSatisfy { $0 === $1 })
    }

    @Test func anUpstreamInClearTextHasNone() throws {
        var contexts = UpstreamTLSContexts()
        let context = try contexts.context(of: route(scheme: .http))
        #expect(context == nil)
    }

    /// A file that cannot be used is the fault of each route that names it.
    @Test(arguments: ["first", "second"])
    func anErrorNamesTheRouteAndTheFile(_ name: String) throws {
        var contexts = UpstreamTLSContexts()
        let missing = folder.appending(path: "missing.pem").path
        _ = try? contexts.context(of: route { $0.caPath = missing })
        let error = #expect(throws: ListenerError.self) {
            _ = try contexts.context(of: route(name) { $0.caPath = missing })
        }
        let text = try #require(error).description
        #expect(text.hasPrefix("routes.\(name).tls: ") && text.contains(missing))
    }

    @Test func anErrorTellsNothingOfTheKey() throws {
        var contexts = UpstreamTLSContexts()
        let error = #expect(throws: ListenerError.self) {
            _ = try contexts.context(of: route { $0.privateKey = Secret("no-such-key") })
        }
        let text = try #require(error).description
        #expect(text.hasPrefix("routes.first.tls: ") && !text.contains("no-such-key"))
    }

    @Test func theUpstreamsOfAConfigurationShareThem() throws {
        let (first, second) = (route(), route("second", "two.example"))
        let routes = [first, second].enumerated().map { ProxyRoute(plan: $1, source: nil, number: $0) }
        let configuration = ProxyConfiguration(
            routes: routes,
            access: AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
            limits: Limits(),
            sha256: { $0 }
        )
        var targets = UpstreamTargets(of: configuration)
        for route in [first, second] { _ = try targets.index(of: route) }
        let contexts = targets.all.compactMap(\.tlsContext)
        #expect(contexts.count == 2 && contexts[0] === contexts[1])
    }

    @Test func thoseThatWereMadeAheadAreUsed() throws {
        var second = route("second", "two.example")
        second.upstreamProtocol = .auto
        let routes = [route("plain", scheme: .http), route(), second]
        var ahead = UpstreamTLSContexts(of: routes)
        let configuration = ProxyConfiguration(
            routes: [],
            access: AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
            limits: Limits(),
            sha256: { $0 }
        )
        var targets = UpstreamTargets(of: configuration, contexts: ahead)
        for route in routes { _ = try targets.index(of: route) }
        let used = targets.all.map(\.tlsContext)
        #expect(used[0] == nil)
        #expect(try used[1] === context(&ahead, routes[1]))
        #expect(try used[2] === context(&ahead, second, in: .auto))
        let other = try #require(used[2])
        #expect(try context(&ahead, second) !== other)
    }

    /// The one that asks for it is told why, as without.
    @Test func whatCannotBeUsedIsNotMadeAhead() throws {
        let missing = folder.appending(path: "missing.pem").path
        let bad = route { $0.caPath = missing }
        var ahead = UpstreamTLSContexts(of: [bad, route()])
        #expect(throws: ListenerError.self) { _ = try ahead.context(of: bad) }
        _ = try context(&ahead, route())
    }

    /// A connection through one proxy, or with one login, must not serve requests that go another way.
    @Test func theProxyAndItsLoginTellTargetsApart() throws {
        let configuration = ProxyConfiguration(
            routes: [],
            access: AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
            limits: Limits(),
            sha256: { $0 }
        )
        var targets = UpstreamTargets(of: configuration)
        var proxied = route()
        proxied.proxy = try ParentProxy("http://proxy:3128")
        var withLogin = proxied
        withLogin.proxy?.login = Secret("Basic x")
        var plain = route("plain", scheme: .http)
        plain.proxy = withLogin.proxy
        let routes = [route(), proxied, withLogin, proxied, plain]
        var indices: [Int] = []
        for route in routes { indices.append(try targets.index(of: route)) }
        #expect(indices == [0, 1, 2, 1, 3])
        #expect(targets.all.map { $0.tunnelEnd == nil } == [true, false, false, true])
        let form = try #require(targets.all[3].absoluteForm)
        #expect(String(decoding: form.prefix, as: UTF8.self) == "\(plain.upstream)")
        #expect(form.loginLine.withValue { String(decoding: $0, as: UTF8.self) } == "Proxy-Authorization: Basic x\r\n")
        #expect(targets.all[3].hasDirectSocket && targets.all[0].parent == nil)
    }

    @Test func connectionsToAServerCountOnWhenAReloadReachesItInAnotherWay() throws {
        var plan = route()
        plan.upstreamProtocol = .http1
        let configuration = ProxyConfiguration(
            routes: [],
            access: AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
            limits: Limits(),
            sha256: { $0 }
        )
        var before = UpstreamTargets(of: configuration)
        _ = try before.index(of: plan)
        plan.upstreamProtocol = .auto
        var after = UpstreamTargets(of: configuration, keeping: before.budgets)
        _ = try after.index(of: plan)
        #expect(after.all[0].version != before.all[0].version)
        #expect(after.all[0].budget === before.all[0].budget)
        #expect(after.budgets.count == 1)
    }
}
