import GatewayCore

/// When tokens of a credential end: its keys `expiry` and `lifetime`.
struct ExpiryRule: Hashable {
    enum Source: String, CaseIterable {
        case response
        case jwtExp = "jwt_exp"
        case fixed
        /// The token is used until it is rejected.
        case none
    }

    let source: Source
    /// Of every token where it is fixed, otherwise of those whose end is not known.
    let lifetime: Duration?

    init(source: Source, lifetime: Duration? = nil) {
        (self.source, self.lifetime) = (source, lifetime)
    }

    init(in fields: ConfigFields) {
        lifetime = fields.duration("lifetime", in: .seconds(1) ... .seconds(366 * 86_400))
        source = fields.choice("expiry", of: Source.self) ?? .response
        if source == .none, fields.has("lifetime") {
            fields.error(
                "lifetime",
                "has no effect with \"expiry: none\", with which a token is used until it is rejected"
            )
        }
        if source == .fixed, !fields.has("lifetime") {
            fields.error("missing key \"lifetime\", which \"expiry: fixed\" needs")
        }
    }

    /// A token from the configuration or an import. It may be old: its `exp` counts although it is over.
    func completing(_ token: TokenSet) -> TokenSet {
        guard token.expiresAt == nil else { return token }
        var token = token
        token.expiresAt = end(from: token.obtainedAt) { UnverifiedJWT(token.access)?.expiresAt }
        return token
    }

    /// The end of a token that was issued just now and came without any statement about it.
    func end(of token: Secret, issuedAt now: UnixTime) -> UnixTime? {
        end(from: now) { UnverifiedJWT(token)?.expiry(issuedAt: now) }
    }

    /// The end of a token that was issued just now. See ``StatedTimes/end(of:at:after:usually:from:isForgiving:remarks:)``.
    func end(
        of token: Secret,
        at instant: JSONValue? = nil,
        after seconds: JSONValue?,
        from now: UnixTime,
        isForgiving: Bool,
        remarks: inout [String]
    ) throws(BrokenAnswer) -> UnixTime? {
        guard source == .response else { return end(of: token, issuedAt: now) }
        return try StatedTimes.end(
            of: token,
            at: instant,
            after: seconds,
            usually: lifetime,
            from: now,
            isForgiving: isForgiving,
            remarks: &remarks
        )
    }

    private func end(from start: UnixTime, stated: () -> UnixTime?) -> UnixTime? {
        switch source {
        case .response, .jwtExp: stated() ?? lifetime.map { start + $0 }
        case .fixed: lifetime.map { start + $0 }
        case .none: nil
        }
    }
}
