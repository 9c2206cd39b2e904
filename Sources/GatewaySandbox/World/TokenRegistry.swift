/// One token that an authority of the sandbox gave out.
struct IssuedToken: Sendable {
    enum Kind: String, Sendable { case access, refresh, session }
    enum State: String, Sendable { case live, spent, revoked }

    /// Names the token without revealing it, for example `box-access-12`.
    let id: String
    let value: String
    let kind: Kind
    let authority: OriginName
    let client: String
    /// Whom it speaks for, for example `enterprise:1000001`.
    let subject: String
    let scopes: [String]
    /// Shared by all tokens that came from one grant.
    let family: Int
    /// In milliseconds since 1970.
    var expiresAt: Int64
    /// The access token that dies when this one is used for the first time.
    var replaces: String?
    var state = State.live
}

/// Every token of every authority, so that the upstream can accept any of them.
///
/// Holds `capacity` tokens; the oldest are forgotten first and are then as good as never issued.
struct TokenRegistry: Sendable {
    enum LookupResult: Sendable {
        case live(IssuedToken)
        case expired(IssuedToken)
        case spent(IssuedToken)
        case revoked(IssuedToken)
        case unknown
    }

    static let capacity = 20_000

    private var tokens: [String: IssuedToken] = [:]
    private var order: [String] = []
    private var families = 0

    mutating func newFamily() -> Int {
        families += 1
        return families
    }

    mutating func add(_ token: IssuedToken) {
        tokens[token.value] = token
        order.append(token.value)
        guard order.count > 2 * Self.capacity else { return }
        for value in order.prefix(Self.capacity) { tokens[value] = nil }
        order.removeFirst(Self.capacity)
    }

    func lookUp(_ value: String, at now: Int64) -> LookupResult {
        guard let token = tokens[value] else { return .unknown }
        switch token.state {
        case .revoked: return .revoked(token)
        case .spent: return .spent(token)
        case .live: return now < token.expiresAt ? .live(token) : .expired(token)
        }
    }

    /// Ends the token that `value` took the place of.
    mutating func confirmUse(of value: String) {
        guard let replaced = tokens[value]?.replaces else { return }
        tokens[value]?.replaces = nil
        tokens[replaced]?.state = .revoked
    }

    mutating func spend(_ value: String) { tokens[value]?.state = .spent }

    /// Ends every token of the family; spent ones stay spent, so that their reuse is still seen as such.
    mutating func revoke(family: Int) {
        for (value, token) in tokens where token.family == family && token.state == .live {
            tokens[value]?.state = .revoked
        }
    }

    /// Brings the expiry of all tokens nearer, as if `seconds` had passed for them.
    mutating func age(by seconds: Int) {
        for value in tokens.keys { tokens[value]?.expiresAt -= Int64(seconds) * 1000 }
    }

    mutating func revokeAll(of authority: OriginName?, kind: IssuedToken.Kind?) {
        for (value, token) in tokens where token.state == .live {
            guard authority == nil || token.authority == authority, kind == nil || token.kind == kind else { continue }
            tokens[value]?.state = .revoked
        }
    }
}
