package import GatewayHTTP
package import GatewayTokens

/// One route as the data plane serves it: the plan's, with the source of its credential.
///
/// The plan names a credential by its index. The runtime has looked it up, and has given the route the number that it keeps over reloads.
package struct ProxyRoute: Sendable {
    package var plan: RoutePlan
    /// nil forwards without authentication.
    package var source: (any CredentialSource)?
    /// Takes the place of ``source`` where each request says whose token it goes with.
    package var selection: (any SubjectCredentialResolver)?
    /// Fields that clients may not send beside the credential of ``source``.
    package var ownedFields: [String]
    package var policy: RenewalPolicy
    /// The credential that the proxy of the plan is sent; nil where it is sent none.
    package var proxyLogin: FixedCredentialSource?
    /// What the observer is told that a request took: ``ExchangeRecord/route``.
    package var number: Int
    /// Its credential, if that has `capture`: requests need a phantom.
    package var captured: CapturedCredential?
    /// Where the gateway answers in the place of an authorization server.
    package var capturePoints: [CapturePoint]

    package init(
        plan: RoutePlan,
        source: (any CredentialSource)?,
        selection: (any SubjectCredentialResolver)? = nil,
        ownedFields: [String] = [],
        policy: RenewalPolicy = RenewalPolicy(),
        proxyLogin: FixedCredentialSource? = nil,
        number: Int,
        captured: CapturedCredential? = nil,
        capturePoints: [CapturePoint] = []
    ) {
        self.number = number
        self.captured = captured
        self.capturePoints = capturePoints
        self.plan = plan
        self.source = source
        self.selection = selection
        self.ownedFields = ownedFields
        self.policy = policy
        self.proxyLogin = proxyLogin
    }
}

/// What the data plane needs to know: immutable; a reload brings another one.
package struct ProxyConfiguration: Sendable {
    package var routes: [ProxyRoute]
    package var access: AccessPlan
    /// Other proxies that ask for credentials.
    package var engines: [EnginePlan]
    /// What CONNECT may do, by the listener's address.
    package var connect: [ListenerPlan.Address: ConnectPlan]
    /// What the observer is told that a request without a route took; nil: nothing.
    package var unroutedNumber: Int?
    /// Servers without a route are reached through it; nil reaches them directly.
    package var proxy: ProxyRule?
    /// The credential that ``proxy`` is sent; nil where it is sent none.
    package var proxyLogin: FixedCredentialSource?
    package var limits: Limits
    package var sendsProxyStatus: Bool
    /// The field that names each request in its answer; nil sends none.
    package var requestIDHeader: String?
    /// nil: requests are part of no trace.
    package var tracing: TraceSampling?
    /// SHA-256, for clients whose token is configured as a digest.
    package var sha256: @Sendable ([UInt8]) -> [UInt8]
    /// A keyed code of what engines are handed (``GenerationMark``).
    package var authenticate: @Sendable ([UInt8]) -> [UInt8]
    /// nil where nothing answers captured logins, as where requests are only explained: such requests are refused.
    package var captures: (any CaptureControl)?

    package init(
        routes: [ProxyRoute],
        access: AccessPlan,
        engines: [EnginePlan] = [],
        connect: [ListenerPlan.Address: ConnectPlan] = [:],
        unroutedNumber: Int? = nil,
        proxy: ProxyRule? = nil,
        proxyLogin: FixedCredentialSource? = nil,
        limits: Limits,
        sendsProxyStatus: Bool = true,
        requestIDHeader: String? = nil,
        tracing: TraceSampling? = nil,
        sha256: @escaping @Sendable ([UInt8]) -> [UInt8],
        authenticate: @escaping @Sendable ([UInt8]) -> [UInt8] = { _ in [] },
        captures: (any CaptureControl)? = nil
    ) {
        self.engines = engines
        self.authenticate = authenticate
        self.captures = captures
        self.routes = routes
        self.access = access
        self.connect = connect
        self.unroutedNumber = unroutedNumber
        self.proxy = proxy
        self.proxyLogin = proxyLogin
        self.limits = limits
        self.sendsProxyStatus = sendsProxyStatus
        self.requestIDHeader = requestIDHeader
        self.tracing = tracing
        self.sha256 = sha256
    }
}
