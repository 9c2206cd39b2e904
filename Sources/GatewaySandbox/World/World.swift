import Crypto
import FoundationEssentials
import GatewayHTTP
import Synchronization

/// Everything that the servers of one sandbox share, behind one lock: a decision and its counting are one step.
final class World: Sendable {
    let accounts = Accounts()
    private let state: Mutex<WorldState>

    init(defaultLifetime: Int) {
        state = Mutex(WorldState(defaultLifetime: defaultLifetime))
        reset()
    }

    /// Changes or reads the state; `now` is in milliseconds since 1970.
    func withState<Result: Sendable>(_ body: (inout WorldState, _ now: Int64) throws -> Result) rethrows -> Result {
        let now = Self.now()
        return try state.withLock { try body(&$0, now) }
    }

    func reset() { withState { state, now in state.reset(accounts, at: now) } }

    private static func now() -> Int64 { Int64(Date().timeIntervalSince1970 * 1000) }
}

struct WorldState: Sendable {
    var registry = TokenRegistry()
    var counters = Counters()
    var journal = Journal()
    var switches: [OriginName: Switches] = [:]
    var codes = AuthorizationCodes()
    var visits = FormVisits()
    var addresses: Sandbox.Addresses?
    var uploads = UploadSessions()
    var uploadSerial = 0
    /// Every `jti` that an assertion of the Box app has carried.
    var assertionIDs: Set<String> = []
    /// The newest access token of a grant that can be renewed.
    private var currentAccess: [Int: String] = [:]
    private(set) var seeds = Seeds()
    private let defaultLifetime: Int
    private var serial = 0
    private let signingKey = SymmetricKey(size: .bits256)

    init(defaultLifetime: Int) { self.defaultLifetime = defaultLifetime }

    struct Grant: Sendable {
        let authority: OriginName
        let client: String
        let subject: String
        var scopes: [String] = []
        var family: Int
        var lifetime: Int?
    }

    /// Issues a token that is random but can be told apart by its number; Duke's access tokens are JSON web tokens.
    mutating func issue(
        _ kind: IssuedToken.Kind,
        _ grant: Grant,
        replaces: String? = nil,
        value: String = "",
        at now: Int64
    ) -> IssuedToken {
        serial += 1
        let id = "\(grant.authority.rawValue)-\(kind.rawValue)-\(serial)"
        // Whole seconds, because that is what a JSON web token can say.
        let lifetime = Int64(grant.lifetime ?? defaultLifetime)
        let expiresAt = kind == .access ? now + lifetime * 1000 : now + 60 * 86_400_000
        let isWebToken = grant.authority == .duke && kind == .access
        func newValue() -> String {
            isWebToken
                ? webToken(id: id, grant, issuedAt: now, expiresAt: expiresAt)
                : "\(id)-\(Base64.encodeURL(Self.randomBytes(18)))"
        }
        let token = IssuedToken(
            id: id,
            value: value.isEmpty ? newValue() : value,
            kind: kind,
            authority: grant.authority,
            client: grant.client,
            subject: grant.subject,
            scopes: grant.scopes,
            family: grant.family,
            expiresAt: isWebToken ? expiresAt / 1000 * 1000 : expiresAt,
            replaces: replaces
        )
        registry.add(token)
        if kind == .access { counters.tokensIssued[grant.authority, default: 0] += 1 }
        return token
    }

    mutating func issueCode(_ code: AuthorizationCode) -> String {
        serial += 1
        let value = "\(code.grant.authority.rawValue)-code-\(serial)-\(Base64.encodeURL(Self.randomBytes(18)))"
        codes.add(code, as: value)
        return value
    }

    /// The grant behind a code that is exchanged now; a second exchange ends what the first one brought.
    mutating func redeem(_ form: Form, client: String, at now: Int64) -> Result<Grant, CodeRefusal> {
        guard let value = form["code"] else { return .failure(.unknown) }
        let outcome = codes.redeem(value, from: form, client: client, at: now)
        if case .failure(.spent) = outcome, let family = codes.family(of: value) { registry.revoke(family: family) }
        return outcome
    }

    /// Issues an access token that ends the grant's former one when it is first used.
    mutating func issueSuccessor(_ grant: Grant, at now: Int64) -> IssuedToken {
        if currentAccess.count >= TokenRegistry.capacity { currentAccess = [:] }
        let token = issue(.access, grant, replaces: currentAccess[grant.family], at: now)
        currentAccess[grant.family] = token.value
        return token
    }

    /// Seconds that a token of this grant lives.
    func lifetime(of grant: Grant) -> Int { grant.lifetime ?? defaultLifetime }

    /// HS256 with a key of this sandbox (RFC 7519).
    private func webToken(id: String, _ grant: Grant, issuedAt: Int64, expiresAt: Int64) -> String {
        let claims: JSON = [
            "iss": "sandbox-authorizer", "sub": .string(grant.subject), "client": .string(grant.client),
            "iat": .integer(Int(issuedAt / 1000)), "exp": .integer(Int(expiresAt / 1000)), "jti": .string(id),
            "nonce": .string(Base64.encodeURL(Self.randomBytes(9))),
        ]
        let header: JSON = ["alg": "HS256", "typ": "JWT"]
        let signed = Base64.encodeURL(Array(header.text.utf8)) + "." + Base64.encodeURL(Array(claims.text.utf8))
        let code = HMAC<SHA256>.authenticationCode(for: Array(signed.utf8), using: signingKey)
        return signed + "." + Base64.encodeURL(Array(code))
    }

    private static func randomBytes(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }

    /// Back to the start: no tokens but the seeds, counters at zero, every switch off.
    mutating func reset(_ accounts: Accounts, at now: Int64) {
        registry = TokenRegistry()
        counters.reset()
        journal.clear()
        switches = [:]
        codes = AuthorizationCodes()
        visits = FormVisits()
        currentAccess = [:]
        uploads = UploadSessions()
        assertionIDs = []
        plantSeeds(accounts, at: now)
        counters.tokensIssued = [:]
    }

    private mutating func plantSeeds(_ accounts: Accounts, at now: Int64) {
        let box = accounts.boxClients[0].id
        let user = Grant(authority: .box, client: box, subject: "user:2000001", family: registry.newFamily())
        var developer = Grant(authority: .box, client: box, subject: "user:2000001", family: registry.newFamily())
        // As at Box: an hour, whatever other tokens live.
        developer.lifetime = 3600
        let oauth = Grant(
            authority: .oauth,
            client: accounts.oauthClients[0].id,
            subject: "user:sandbox",
            scopes: accounts.oauthScopes,
            family: registry.newFamily()
        )
        let duke = Grant(
            authority: .duke,
            client: accounts.dukeClients[0],
            subject: accounts.netID,
            family: registry.newFamily()
        )
        seeds = Seeds(
            boxDeveloperToken: issue(.access, developer, value: seeds.boxDeveloperToken, at: now).value,
            boxRefreshToken: issue(.refresh, user, value: seeds.boxRefreshToken, at: now).value,
            oauthRefreshToken: issue(.refresh, oauth, value: seeds.oauthRefreshToken, at: now).value,
            dukeAccessToken: issue(.access, duke, value: seeds.dukeAccessToken, at: now).value,
            dukeSessionToken: issue(.session, duke, value: seeds.dukeSessionToken, at: now).value
        )
    }
}

extension WorldState {
    /// Ends the token and all that came from its grant. A token that is not this client's is left alone, without a
    /// word about it (RFC 7009 §2.2).
    mutating func revokeFamily(of value: String, issuedBy authority: OriginName, to client: String?, at now: Int64) {
        let token: IssuedToken
        switch registry.lookUp(value, at: now) {
        case .live(let found), .expired(let found), .spent(let found), .revoked(let found): token = found
        case .unknown: return
        }
        guard token.authority == authority, token.client == client else { return }
        registry.revoke(family: token.family)
    }
}
