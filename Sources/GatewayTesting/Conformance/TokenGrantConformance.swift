import GatewayHTTP
package import GatewayTokens

/// What every ``TokenGrant`` promises. Run it from the strategy's own tests.
///
///     try TokenGrantConformance(grant, success: TokenReply(status: 200, body: ...)).check()
package struct TokenGrantConformance: Sendable {
    private let grant: any TokenGrant
    private let success: TokenReply
    private let token: TokenSet
    private let answersErrorsInOAuth: Bool

    private let now = Moment(
        monotonic: MonotonicTime(nanoseconds: 5_000_000_000),
        wall: UnixTime(seconds: 1_772_357_400)
    )

    /// - Parameters:
    ///   - success: What the authority answers when all is well.
    ///   - token: The token at hand before that answer.
    ///   - answersErrorsInOAuth: Whether errors arrive as RFC 6749 §5.2 says.
    package init(
        _ grant: any TokenGrant,
        success: TokenReply,
        holding token: TokenSet = TokenSet(
            access: Secret("canary-old-access"),
            refreshToken: Secret("canary-old-renewal"),
            obtainedAt: UnixTime(seconds: 1_772_353_800),
            expiresAt: UnixTime(seconds: 1_772_357_400)
        ),
        answersErrorsInOAuth: Bool = true
    ) {
        self.grant = grant
        self.success = success
        self.token = token
        self.answersErrorsInOAuth = answersErrorsInOAuth
    }

    package func check() throws {
        try namesItsStrategyAndInputs()
        try injectsTheAccessTokenAlone()
        guard grant.isRenewable else { return try asksForAPerson() }
        if case .run(let program) = grant.firstStep(holding: token, at: now) { return try runsAProgram(program) }
        if case .token(let made) = grant.firstStep(holding: token, at: now) { return try makes(made) }
        try describesTheSameRequestEveryTime()
        try keepsSecretsOutOfTheURL()
        try listsWhereItAsks()
        try takesTheTokenFromTheAnswer()
        try triesAgainLater()
        try givesUpOnRefusals()
        try neverRepeatsTheAuthority()
    }

    /// Grants that differ in any input must not share a token.
    package static func checkIdentitiesDiffer(_ grants: [any TokenGrant]) throws {
        for (index, one) in grants.enumerated() {
            for (otherIndex, other) in grants.enumerated().dropFirst(index + 1) {
                try promise(
                    one.identity != other.identity,
                    "grants \(index) and \(otherIndex) have different identities"
                )
                try promise(
                    one.identity.canonicalBytes != other.identity.canonicalBytes,
                    "grants \(index) and \(otherIndex) have different canonical bytes"
                )
            }
        }
    }

    private func namesItsStrategyAndInputs() throws {
        let identity = grant.identity
        try promise(!identity.strategy.isEmpty, "the identity names the strategy")
        try promise(!identity.inputs.isEmpty, "the identity lists the inputs of the grant")
        try promise(identity == grant.identity, "the identity does not change")
        try promise(!"\(identity)".contains("canary"), "the identity prints no secret")
    }

    private func injectsTheAccessTokenAlone() throws {
        let injection = grant.injection(of: token)
        if let signer = grant.signer(with: token) {
            try promise(injection.isEmpty, "what requests are signed with is not injected")
            return try promise(!signer.ownedFields.isEmpty, "clients do not fill the fields of a signature")
        }
        let values = injection.secrets
        let access = token.access.withValue { $0 }
        try promise(
            values.contains { $0.withValue { $0.contains(access) } },
            "the access token is part of what is injected"
        )
        guard let refreshToken = token.refreshToken?.withValue({ $0 }) else { return }
        try promise(
            !values.contains { $0.withValue { $0.contains(refreshToken) } },
            "the refresh token never goes upstream"
        )
    }

    /// Clients are kept from there.
    private func listsWhereItAsks() throws {
        for request in [try request(), grant.revocation(of: token, at: now)].compactMap(\.self) {
            let place = AuthorityEndpoint(request.url)
            let path = Array(place.path.utf8)
            let isListed = grant.authorityEndpoints.contains {
                $0.origin == place.origin && $0.isMeant(by: path.indices, in: path.span)
            }
            try promise(isListed, "authorityEndpoints lists \(request.url)")
        }
    }

    private func asksForAPerson() throws {
        guard case .impossible(let failure) = grant.firstStep(holding: token, at: now) else {
            throw ConformanceFailure("a grant that cannot be renewed sends no token request")
        }
        if case .transient = failure.class { throw ConformanceFailure("waiting does not help a grant without renewal") }
        try promise(!failure.problem.detail.isEmpty, "the failure says what to do")
    }

    private func runsAProgram(_ program: TokenProgram) throws {
        let secrets = program.environment.map(\.value) + [token.access] + (token.refreshToken.map { [$0] } ?? [])
        for secret in secrets where !secret.isEmpty {
            let isShown = program.command.contains { argument in secret.withValue { argument.contains($0) } }
            try promise(!isShown, "no secret stands on a command line")
        }
        try promise(!program.command.isEmpty, "there is a program")
        try takesTheTokenFromTheAnswer()
        let long = String(repeating: "x", count: 17 << 10)
        for output in ["", "\n", "canary-text in \u{1}two words", "\0", long] {
            let failure = try failure(TokenReply(output: Array(output.utf8)))
            guard case .transient = failure.class else {
                throw ConformanceFailure("the output \(output.prefix(20).debugDescription) is transient")
            }
            try promise(!"\(failure)".contains("canary"), "the output of a program is not repeated")
        }
    }

    private func request() throws -> TokenRequest {
        guard case .request(let request) = grant.firstStep(holding: token, at: now) else {
            throw ConformanceFailure("a renewable grant has a request to make")
        }
        return request
    }

    private func describesTheSameRequestEveryTime() throws {
        try promise(try request() == request(), "the same token leads to the same request")
        if grant.rotatesRefreshToken {
            let refreshToken = try unwrap(token.refreshToken, "give the kit a token with a refresh token")
            try promise(try carries(refreshToken), "a rotating grant spends the refresh token")
        }
    }

    private func carries(_ secret: Secret) throws -> Bool {
        let request = try request()
        var values = request.fields.map(\.value)
        switch request.body {
        case .none: break
        case .form(let parameters): values += parameters.map(\.value)
        case .content(_, let content): values.append(content)
        }
        return values.contains { value in value.withValue { text in secret.withValue { text.contains($0) } } }
    }

    private func keepsSecretsOutOfTheURL() throws {
        let url = try request().url.text
        for input in [token.access, token.refreshToken].compactMap({ $0 }) {
            try promise(!input.withValue { url.contains($0) }, "no token stands in the URL of a token request")
        }
    }

    private func makes(_ fresh: TokenSet) throws {
        try promise(!fresh.access.isEmpty && fresh.access != token.access, "the grant makes a token")
        try promise(fresh.obtainedAt == now.wall, "the token is dated when it was made")
        if let expiresAt = fresh.expiresAt { try promise(expiresAt > now.wall, "a fresh token has not expired") }
    }

    private func takesTheTokenFromTheAnswer() throws {
        let fresh: TokenSet
        switch grant.interpret(success, holding: token, at: now) {
        case .success(let token): fresh = token
        case .failure(let failure): throw ConformanceFailure("the sample answer yields a token, not \(failure)")
        }
        try promise(!fresh.access.isEmpty, "the token is not empty")
        try promise(fresh.access != token.access, "the token is the answer's")
        try promise(fresh.obtainedAt == now.wall, "the token is dated when its answer arrived")
        if let expiresAt = fresh.expiresAt { try promise(expiresAt > now.wall, "a fresh token has not expired") }
        if grant.rotatesRefreshToken {
            try promise(fresh.refreshToken != nil, "a rotating grant still holds a refresh token")
        }
        let again = grant.interpret(success, holding: token, at: now)
        try promise(again == .success(fresh), "the same answer means the same")
    }

    private func triesAgainLater() throws {
        let wait = [TokenReply.Field(name: "retry-after", value: "7")]
        for status in [429, 500, 502, 503, 504] {
            let failure = try failure(TokenReply(status: status, fields: wait, body: Array("busy".utf8)))
            guard case .transient(let retryAfter) = failure.class else {
                throw ConformanceFailure("status \(status) is transient")
            }
            if status == 429 || status == 503 {
                try promise(retryAfter == .seconds(7), "Retry-After of status \(status) is honoured")
            }
        }
        let deep = String(repeating: "[", count: 100_000)
        for body in ["", "<html>hello</html>", "{", "null", "[]", "{}", deep, "\0", "\"token\""] {
            let failure = try failure(TokenReply(status: 200, fields: success.fields, body: Array(body.utf8)))
            guard case .transient = failure.class else {
                throw ConformanceFailure("200 with the body \(body.prefix(20).debugDescription) is transient")
            }
        }
    }

    private func givesUpOnRefusals() throws {
        _ = try failure(TokenReply(status: 302, fields: [.init(name: "Location", value: "https://elsewhere.example")]))
        guard answersErrorsInOAuth else { return }
        for (status, code) in [(400, "invalid_client"), (401, "invalid_client"), (400, "unauthorized_client")] {
            let failure = try failure(TokenReply(status: status, body: Array(#"{"error":"\#(code)"}"#.utf8)))
            try promise(failure.class == .terminal, "\(code) is terminal")
            try promise(failure.problem.cause?.code == code, "\(code) is named as the cause")
        }
        let failure = try failure(TokenReply(status: 400, body: Array(#"{"error":"invalid_grant"}"#.utf8)))
        if case .transient = failure.class { throw ConformanceFailure("invalid_grant is final") }
    }

    private func neverRepeatsTheAuthority() throws {
        let body = #"{"error":"canary-code","error_description":"canary-text","access_token":""}"#
        for status in [200, 400, 401, 403, 429, 500] {
            let failure = try failure(TokenReply(status: status, body: Array(body.utf8)))
            try promise(
                !"\(failure)".contains("canary"),
                "text of the authorization server is not repeated (status \(status))"
            )
            try promise(!failure.problem.detail.isEmpty, "the failure is explained (status \(status))")
        }
    }

    private func failure(_ reply: TokenReply) throws -> TokenFailure {
        switch grant.interpret(reply, holding: token, at: now) {
        case .success: throw ConformanceFailure("status \(reply.status) with \(reply.body.count) bytes yields no token")
        case .failure(let failure): failure
        }
    }

    private func unwrap<Value>(_ value: Value?, _ sentence: String) throws -> Value {
        guard let value else { throw ConformanceFailure(sentence) }
        return value
    }
}

/// What a conformance kit throws: the promise that was broken, and how. Also what a test cannot do without, and does not have.
package struct ConformanceFailure: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

func promise(_ holds: Bool, _ sentence: @autoclosure () -> String) throws {
    guard holds else { throw ConformanceFailure(sentence()) }
}
