package import GatewayConfiguration
package import GatewayHTTP

/// One way to authenticate to an upstream: what its block in the configuration holds and what it does on the wire.
///
/// A strategy is an immutable value, the decoded configuration itself. Adding one takes one file and one line in the
/// catalog.
package protocol AuthStrategy: Sendable {
    /// The value of `strategy:`.
    static var kind: String { get }

    /// Names that standards and other programs use for it, in lower case. A configuration that uses one is told to write ``kind``.
    static var otherNames: [String] { get }

    /// Whether its tokens may be sessions, whose end an upstream may tell by a redirect or a page: `rejected_when`.
    static var hasSessions: Bool { get }

    /// Decodes the block. Problems are recorded in `fields`; nil when there was one.
    init?(from fields: ConfigFields)

    var behavior: AuthBehavior { get }

    /// The same credential for another subject, as a route's `subject:` asks.
    ///
    /// `fields` is the route's `auth` mapping: `subject` is a key of it, as it is a key of the strategy's own block.
    /// nil when the strategy knows no subjects (the default; the caller reports it), or when the subject was faulty
    /// (recorded in `fields`).
    func switchingSubject(_ fields: ConfigFields) -> (any AuthStrategy)?

    /// The secret of the configuration that it sends as it is, and the key of its block that holds it; nil for a strategy that
    /// sends none. Credentials with the same secret are locked together.
    var injectedSecret: (key: String, secret: Secret)? { get }

    /// The settings that the plan shows, by key. No secrets.
    var shownSettings: [String: String] { get }

    /// What it shows its authorization server in the TLS handshake; nil when it shows nothing.
    var clientTLS: ClientTLS? { get }

    /// Where in its block that stands.
    static var clientTLSKey: String { get }

    /// Whether its credentials can have the key `proxy`, where an example of its keys does not tell: it sends requests of its own with
    /// some of them only, or no made-up key is one that it can sign with. nil where the example tells.
    static var maySendRequests: Bool? { get }

    /// Whether ``switchingSubject(_:)`` is supported.
    static var hasSubject: Bool { get }

    /// The request field by which the upstream lets a privileged token act for another user; nil where there is none.
    static var userField: UserField? { get }
}

/// A request field that names the user for whom a privileged token acts, as a route's `as_user` asks.
package struct UserField: Hashable, Sendable {
    /// The name of the field as it is sent: `As-User`.
    package let name: String
    /// What to set up when the upstream refuses it with 403; its response does not say.
    package let advice: String
    /// What `as_user` means, for people.
    package let meaning: String

    package init(name: String, advice: String, meaning: String = "Names the user to act for.") {
        self.name = name
        self.advice = advice
        self.meaning = meaning
    }
}

/// What most strategies do.
extension AuthStrategy {
    /// Decodes a block in which every text may come from where secrets come from.
    package static func read(from fields: ConfigFields) -> Self? {
        fields.context.readingTexts { Self(from: fields) }
    }

    package static var otherNames: [String] { [] }
    package static var maySendRequests: Bool? { nil }
    package static var hasSubject: Bool { false }
    package static var hasSessions: Bool { false }
    package static var userField: UserField? { nil }
    /// Fields that clients may not send beside such a credential: to act for another user is a privilege that callers must not
    /// help themselves to.
    package static var ownedFields: [String] { userField.map { [$0.name] } ?? [] }
    package var clientTLS: ClientTLS? { nil }
    package var injectedSecret: (key: String, secret: Secret)? { nil }
    package var shownSettings: [String: String] { [:] }
    package static var clientTLSKey: String { "tls" }
    package func switchingSubject(_ fields: ConfigFields) -> (any AuthStrategy)? { nil }
}

/// What a strategy does with a request.
///
/// The decoders of `renew` and of a route's headers extend it in their own files, with what only they ask.
package enum AuthBehavior: Sendable {
    /// Forwards the request as it is.
    case none
    /// Adds the same thing to every request.
    indirect case fixed(Injection)
    /// Adds the same thing once the upstream has asked for `Basic` credentials, of this realm when there is one.
    indirect case onChallenge(Injection, realm: String?)
    /// Signs requests with keys from the configuration.
    case signed(Signer)
    /// Has a lifecycle: a token is obtained, renewed, rejected.
    case token(any TokenGrant)
    /// Has a lifecycle for each of many tokens: requests name a subject, or upstreams ask for a token in a challenge
    /// (``TokenGrants/naming``).
    case tokens(any TokenGrants)
}

/// The grant behind a renewable credential: which requests to make, and what their answers mean. Pure.
package protocol TokenGrant: Sendable {
    var identity: GrantIdentity { get }

    /// A token from the configuration, to begin with when the store holds none.
    func seed(at now: Moment) -> TokenSet?

    /// Whether a new token can be obtained without a person. False for developer tokens.
    var isRenewable: Bool { get }

    /// Whether a token is renewed before its end, also while no request uses it.
    var renewsAhead: Bool { get }

    /// Whether a renewal spends ``TokenSet/refreshToken``, so that the attempt must be journalled first.
    var rotatesRefreshToken: Bool { get }

    /// Whether the next request of an attempt has the refresh token in it and may spend it.
    func sendsRefreshToken(in attempt: GrantAttempt) -> Bool

    /// Whether a token can be obtained without the refresh token at hand: with a password or the steps of a login that stand in
    /// the configuration. Then nothing is lost with a refresh token.
    var canAcquireAnew: Bool { get }

    /// Whether its requests hold a secret: one that failed is not sent again without a cause.
    var sendsSecrets: Bool { get }

    /// What no answer may repeat, whatever step it is the answer to.
    var hiddenSecrets: [Secret] { get }

    /// What an attempt begins with.
    func firstStep(of attempt: GrantAttempt) -> GrantStep

    /// What the answer to the last step means. What a later step needs of it is put aside in `attempt`.
    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer

    /// What makes the authorization server forget ``GrantAttempt/held`` begins with.
    func revocation(in attempt: GrantAttempt) -> RevocationStep

    /// What the answer to the last step of a revocation means.
    func interpretRevocation(_ reply: TokenReply, in attempt: inout GrantAttempt) -> RevocationAnswer

    /// Whether a token stays when its revocation failed, so that it can be tried again.
    var keepsTokenUntilRevoked: Bool { get }

    /// A token that an operator brings, with what the grant knows about such tokens: when they end.
    func completing(_ token: TokenSet) -> TokenSet

    /// What the token looks like on a forwarded request.
    func injection(of token: TokenSet) -> Injection

    /// Signs forwarded requests with the token, which is then not injected. nil for most grants. A grant that signs has a signer for
    /// every token: for one that it cannot use, the signer refuses all requests.
    func signer(with token: TokenSet) -> Signer?

    /// How a person gets a first token, or the next one when no renewal is possible; nil when no login exists.
    var login: (any LoginFlow)? { get }

    /// Where a person gets a token that nothing renews, to be named in a sentence; nil where that is not known.
    var tokenPlace: String? { get }

    /// How a person logs in on another device; nil when the authorization server offers no way.
    var deviceLogin: (any DeviceLoginFlow)? { get }

    /// What is known of logins that clients begin by themselves and that are captured; nil where none are.
    var capture: (any CapturableLogin)? { get }

    /// Whether ``seed(at:)`` is to be renewed as soon as it is read, to see that it can be.
    var renewsSeed: Bool { get }

    /// Where its requests go: clients do not get there through a route that carries its token.
    var authorityEndpoints: [AuthorityEndpoint] { get }
}

/// What most grants do.
extension TokenGrant {
    package var login: (any LoginFlow)? { nil }
    package var tokenPlace: String? { nil }
    package var deviceLogin: (any DeviceLoginFlow)? { nil }
    package var capture: (any CapturableLogin)? { nil }
    package var renewsSeed: Bool { false }
    package var renewsAhead: Bool { true }
    package func sendsRefreshToken(in attempt: GrantAttempt) -> Bool { rotatesRefreshToken }
    package var canAcquireAnew: Bool { false }
    package var sendsSecrets: Bool { true }
    package func signer(with token: TokenSet) -> Signer? { nil }
    package var hiddenSecrets: [Secret] { identity.secrets }
    package var authorityEndpoints: [AuthorityEndpoint] { [] }
}

/// How most tokens are revoked, and when one that an operator brings expires.
extension TokenGrant {
    package func revocation(in attempt: GrantAttempt) -> RevocationStep {
        .impossible("The strategy \(identity.strategy) has no revocation endpoint.")
    }

    package func interpretRevocation(_ reply: TokenReply, in attempt: inout GrantAttempt) -> RevocationAnswer {
        RevocationAnswer(reply)
    }

    package var keepsTokenUntilRevoked: Bool { true }

    package func completing(_ token: TokenSet) -> TokenSet {
        var token = token
        token.expiresAt = token.expiresAt ?? UnverifiedJWT(token.access)?.expiresAt
        return token
    }
}

/// What a behavior says about the tokens of its credential.
extension AuthBehavior {
    /// Stands for any token where only the form of its injection matters.
    package static let exampleToken = TokenSet(access: Secret("example"), obtainedAt: UnixTime(milliseconds: 0))

    /// Whether requests are signed, so that it is not known in advance what is sent.
    package var signs: Bool {
        switch self {
        case .signed: true
        case .token(let grant): grant.signer(with: Self.exampleToken) != nil
        case .none, .fixed, .onChallenge, .tokens: false
        }
    }

    /// Whether a token of it can be replaced without a person.
    package var isRenewable: Bool {
        switch self {
        case .token(let grant): grant.isRenewable
        case .tokens(let grants): grants.isRenewable
        case .none, .fixed, .onChallenge, .signed: false
        }
    }

    /// Whom the token speaks for; nil when there is no token or no subject.
    package var subject: String? {
        guard case .token(let grant) = self else { return nil }
        return grant.identity.subject
    }

    /// The endpoints to which its grant, and the grants that this one is made from, send requests.
    package var authorityEndpoints: [AuthorityEndpoint] {
        switch self {
        case .none, .fixed, .onChallenge, .signed: []
        case .token(let grant): grant.authorityEndpoints
        case .tokens(let grants): grants.authorityEndpoints
        }
    }
}

extension AuthStrategy {
    /// Whether a token of it can be replaced without a person.
    package var isRenewable: Bool { behavior.isRenewable }
}
