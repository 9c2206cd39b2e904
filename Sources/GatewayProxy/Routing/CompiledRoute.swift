import GatewayHTTP
import GatewayTokens
import Synchronization

/// What the heads say of one upstream; all its routes share it.
struct UpstreamHeaderTemplate {
    /// `Host: api.example.com` with its CRLF.
    let hostLine: [UInt8]
    let responseWriter: ResponseWriter

    init(_ authority: String, viaName: String, of configuration: ProxyConfiguration) {
        hostLine = Array("Host: \(authority)\r\n".utf8)
        responseWriter = ResponseWriter(
            viaName: viaName,
            proxyStatus: configuration.sendsProxyStatus ? ProxyStatus.member(nextHop: authority) : nil,
            requestIDHeader: configuration.requestIDHeader
        )
    }
}

/// A route with everything that can be worked out before a request comes: a ``ProxyRoute``, prepared.
///
/// All workers share it, so it has nothing that belongs to an event loop, and no generation of the credential.
final class CompiledRoute: Sendable {
    /// Into the routes of its configuration.
    let index: Int
    /// What observers know the route by: the same after a reload.
    let number: Int
    let plan: RoutePlan
    let source: (any CredentialSource)?
    /// Takes the place of ``source`` where each request says whose token it goes with.
    let selection: (any SubjectCredentialResolver)?
    let policy: RenewalPolicy
    /// The sessions of a credential that signs once the upstream has sent a challenge; nil for others.
    let sessions: SigningSessions?
    /// A request that was refused can be signed again: after a challenge, or because of its date.
    let mayBeSignedAgain: Bool
    /// By how many seconds the dates of signatures differ from our clock (``SignatureDate``).
    private let signatureOffset = Atomic<Int>(0)
    private let proxyLogin: FixedCredentialSource?
    private let ownedFields: [String]
    let captured: CapturedCredential?
    let capturePoints: [CapturePoint]
    let hostLine: [UInt8]
    let basePath: [UInt8]
    let prefix: PathPrefix
    /// `As-User: 42` with its CRLF; empty when the route pins none.
    let asUserLine: [UInt8]
    /// `Accept-Encoding: identity` with its CRLF, where bodies of responses are looked at; empty elsewhere.
    let codingLine: [UInt8]
    /// Lower-case names, `_` read as `-`, that only the route may set; `authorization` is not among them.
    let ownedNames: [[UInt8]]
    /// Those among them that the credential fills.
    let credentialFields: [[UInt8]]
    /// Without a credential, what the client sends there is forwarded.
    let keepsAuthorization: Bool
    let forwarded: ForwardedPolicy
    /// Pages of other origins may call.
    let answersPages: Bool
    let responseWriter: ResponseWriter
    /// The response field that carries the request's ID; nil sends none.
    let requestIDHeader: String?
    /// The query parameter that carries the credential, when it is a fixed one that goes there.
    let querySlot: [UInt8]?
    /// When the log was last told why the upstream refuses what the route asks for, in monotonic nanoseconds.
    private let explainedAt = Atomic<Int64>(0)
    private let hasDroppedCookie = Atomic<Bool>(false)
    private static let explanationPause: Int64 = 600_000_000_000

    init(
        index: Int,
        route: ProxyRoute,
        upstream: UpstreamHeaderTemplate,
        requestIDHeader: String?,
        answersPages: Bool,
        now: MonotonicTime
    ) {
        self.answersPages = answersPages
        self.index = index
        self.requestIDHeader = requestIDHeader
        hostLine = upstream.hostLine
        responseWriter = upstream.responseWriter
        number = route.number
        plan = route.plan
        source = route.source
        selection = route.selection
        policy = route.policy
        if case .afterChallenge(let signer)? = route.source?.fixed?.credential.signer {
            sessions = SigningSessions(signer)
        } else {
            sessions = nil
        }
        mayBeSignedAgain = sessions != nil || route.source?.fixed?.credential.signer?.judge != nil
        proxyLogin = route.proxyLogin
        ownedFields = route.ownedFields
        captured = route.captured
        capturePoints = route.capturePoints
        prefix = PathPrefix(route.plan)
        basePath = Array(route.plan.upstreamPath.utf8)
        asUserLine = route.plan.asUser.map { Array("\($0.field.name): \($0.id)\r\n".utf8) } ?? []
        credentialFields = Self.credentialFields(of: route, now: now)
        let headers = Self.names(of: route.plan.headers)
        let ownsCoding = headers.contains(Self.acceptEncoding)
        let readsResponses = route.policy.rejectedWhen?.body != nil || route.plan.namesTools
        codingLine = readsResponses && !ownsCoding ? Array("Accept-Encoding: identity\r\n".utf8) : []
        ownedNames =
            credentialFields + (route.selection?.naming.field.map { [$0.utf8.map(\.asciiLowercased)] } ?? [])
            + (route.plan.asUser.map { [$0.field.name.utf8.map(\.asciiLowercased)] } ?? [])
            + (codingLine.isEmpty ? [] : [Self.acceptEncoding])
            + headers
        keepsAuthorization = !route.plan.headers.remove.contains { FieldSyntax.slot($0) == "authorization" }
        forwarded = route.plan.headers.forwarded
        querySlot =
            (route.source.flatMap { Self.credential(of: $0, now: now) }?.injection.query?.name.utf8).map(Array.init)
    }

    /// What it was made of.
    var origin: ProxyRoute {
        ProxyRoute(
            plan: plan,
            source: source,
            selection: selection,
            ownedFields: ownedFields,
            policy: policy,
            proxyLogin: proxyLogin,
            number: number,
            captured: captured,
            capturePoints: capturePoints
        )
    }

    /// What a reload compares.
    var identity: ReloadWithdrawal.Route {
        ReloadWithdrawal.Route(
            name: plan.name,
            credential: credentialName,
            strategy: strategy,
            grant: source?.grantKey ?? selection?.grantKey,
            clients: plan.clients
        )
    }

    /// Fields of a request that its client and its subject are read from, beside those of every route. In lower case.
    var judgedNames: [[UInt8]] {
        credentialFields + (selection?.naming.field.map { [$0.utf8.map(\.asciiLowercased)] } ?? [])
    }

    var credentialName: String? { source?.name ?? selection?.name }
    var strategy: String? { source?.strategy ?? selection?.strategy }

    /// The date of a signature that is made now.
    func signatureDate(at now: UnixTime) -> UnixTime {
        now + .seconds(signatureOffset.load(ordering: .relaxed))
    }

    /// An upstream has refused a signature because of its date.
    ///
    /// - Parameters:
    ///   - measured: The upstream's clock minus ours, in seconds.
    ///   - least: By how much the dates must differ.
    func correctSignatureDate(by measured: Int, least: Int) -> SignatureDate.Correction {
        let present = signatureOffset.load(ordering: .relaxed)
        let correction = SignatureDate.correction(by: measured, from: present, least: least)
        if case .change(let offset) = correction { signatureOffset.store(offset, ordering: .relaxed) }
        return correction
    }

    /// True once in ten minutes: clients repeat their mistakes, the log need not.
    func mayExplain(at now: MonotonicTime) -> Bool {
        let last = explainedAt.load(ordering: .relaxed)
        guard last == 0 || now.nanoseconds &- last >= Self.explanationPause else { return false }
        return explainedAt.compareExchange(expected: last, desired: max(1, now.nanoseconds), ordering: .relaxed)
            .exchanged
    }

    /// True the first time: that a cookie was dropped is logged once for each route.
    func isFirstDroppedCookie() -> Bool {
        !hasDroppedCookie.load(ordering: .relaxed)
            && !hasDroppedCookie.exchange(true, ordering: .relaxed)
    }

    private static let acceptEncoding = Array("accept-encoding".utf8)

    /// Fixed credentials show what they inject; a token's name is known when it comes (``CredentialedRoute``).
    private static func credentialFields(of route: ProxyRoute, now: MonotonicTime) -> [[UInt8]] {
        var names: [[UInt8]] = []
        if let source = route.source {
            if let credential = credential(of: source, now: now) {
                names = CredentialedRoute.ownedNames(of: credential)
            }
            names += route.ownedFields.map { $0.utf8.map(\.asciiLowercased) }
        }
        return names
    }

    /// What is known of it before a request comes. That it is locked does not matter: it may be unlocked.
    private static func credential(of source: any CredentialSource, now: MonotonicTime) -> Credential? {
        if let fixed = source.fixed { return fixed.credential }
        guard case .ready(let credential) = source.current(at: now) else { return nil }
        return credential
    }
}

extension CompiledRoute {
    /// As they are compared, and those with `_` also as they are written: what a route sets or removes itself is not
    /// mistaken for something else.
    fileprivate static func names(of headers: RoutePlan.Headers) -> [[UInt8]] {
        (headers.set.map(\.name) + headers.remove).flatMap { name in
            Set([FieldSyntax.slot(name), name.lowercased()]).map { Array($0.utf8) }
        }.filter { $0 != Array("authorization".utf8) }
    }
}
