import CryptoExtras
import FoundationEssentials
import GatewayHTTP
import GatewayTokens
import HTTPTypes
import Hummingbird

/// Token and revocation endpoint as Box has them, and the API behind them on the same origin.
struct BoxAuthority: Sendable {
    static let tokenType = "urn:ietf:params:oauth:token-type:access_token"
    private static let exchange = "urn:ietf:params:oauth:grant-type:token-exchange"

    let world: World

    func router() -> Router<SandboxContext> {
        let router = Router(context: SandboxContext.self)
        router.add(middleware: JournalMiddleware(world: world, origin: .box))
        ControlAPI(world: world, origin: .box).routes(on: router)
        let page = AuthorizePage(
            world: world,
            origin: .box,
            subject: "user:2000001",
            clients: world.accounts.boxClients.map(\.id),
            codeLifetime: 30
        )
        // At Box another host has this page: account.box.com.
        router.get("/api/oauth2/authorize") { request, _ in page.answer(request) }
        router.post("/oauth2/token") { request, context in try await token(request, context) }
        router.post("/oauth2/revoke") { request, _ in try await revoke(request) }
        BoxAPI(world: world).routes(on: router)
        return router
    }

    private func token(_ request: Request, _ context: SandboxContext) async throws -> Response {
        let form = try await TokenCalls.form(of: request)
        let grant = form?["grant_type"] ?? "(none)"
        return try await TokenCalls(world: world, origin: .box).answer(
            grant: grant,
            client: form?["client_id"] ?? "(none)",
            context: context
        ) { state, now, call in
            guard let form, grant != "(none)" else {
                return .refused(.oauthError("invalid_request", "Invalid grant_type parameter or parameter missing"))
            }
            if grant == Self.exchange { return exchange(form, &state, now, call) }
            guard isKnownClient(form) else {
                return .refused(.oauthError("invalid_client", "The client credentials are invalid"))
            }
            switch grant {
            case "client_credentials": return clientCredentials(form, &state, now, call)
            case "authorization_code": return code(form, &state, now)
            case "refresh_token": return refresh(form, &state, now, call)
            case BoxAssertion.grantType: return assertion(form, &state, now, call)
            default:
                return .refused(
                    .oauthError("unauthorized_client", "The grant type is unauthorized for this client_id")
                )
            }
        }
    }

    /// Box reads the client's credentials from the form alone.
    private func isKnownClient(_ form: Form) -> Bool {
        guard let id = form["client_id"], let secret = form["client_secret"] else { return false }
        return world.accounts.boxClients.contains { $0.id == id && Secret($0.secret).matches(Array(secret.utf8)) }
    }

    private func knows(_ type: String?, _ id: String) -> Bool {
        switch type {
        case "enterprise": id == world.accounts.boxEnterprise
        case "user": world.accounts.boxUsers[id] != nil
        default: false
        }
    }

    /// A signed statement about whom the token shall speak for (RFC 7523 §2.1).
    private func assertion(
        _ form: Form,
        _ state: inout WorldState,
        _ now: Int64,
        _ call: Switches.TokenCall
    ) -> TokenAnswer {
        let client = form["client_id"] ?? ""
        let assertion: BoxAssertion
        do throws(BoxAssertion.Refusal) {
            assertion = try BoxAssertion(form["assertion"] ?? "")
            try assertion.check(for: client, at: now, against: &state.assertionIDs)
            guard knows(assertion.subjectType, assertion.subject) else { throw .unknownSubject }
        } catch {
            return .refused(.oauthError("invalid_grant", error.rawValue))
        }
        let grant = WorldState.Grant(
            authority: .box,
            client: client,
            subject: "\(assertion.subjectType):\(assertion.subject)",
            family: state.registry.newFamily(),
            lifetime: call.lifetime
        )
        return .granted(answer(state.issue(.access, grant, at: now), lifetime: state.lifetime(of: grant)))
    }

    private func clientCredentials(
        _ form: Form,
        _ state: inout WorldState,
        _ now: Int64,
        _ call: Switches.TokenCall
    ) -> TokenAnswer {
        let id = form["box_subject_id"] ?? ""
        switch form["box_subject_type"] {
        case "enterprise" where knows("enterprise", id): break
        case "user" where knows("user", id): break
        case "enterprise", "user": return .refused(.oauthError("invalid_grant", "Grant credentials are invalid"))
        default:
            return .refused(
                .oauthError(
                    "unauthorized_client",
                    "The \"box_subject_type\" value is unauthorized for this client_id"
                )
            )
        }
        let grant = WorldState.Grant(
            authority: .box,
            client: form["client_id"] ?? "",
            subject: "\(form["box_subject_type"] ?? ""):\(id)",
            family: state.registry.newFamily(),
            lifetime: call.lifetime
        )
        return .granted(answer(state.issue(.access, grant, at: now), lifetime: state.lifetime(of: grant)))
    }

    private func code(_ form: Form, _ state: inout WorldState, _ now: Int64) -> TokenAnswer {
        switch state.redeem(form, client: form["client_id"] ?? "", at: now) {
        case .failure:
            return .refused(.oauthError("invalid_grant", "Auth code doesn't exist or is invalid for the client"))
        case .success(let grant):
            let access = state.issueSuccessor(grant, at: now)
            let refresh = state.issue(.refresh, grant, at: now)
            return .granted(
                answer(access, lifetime: state.lifetime(of: grant)) + [("refresh_token", .string(refresh.value))]
            )
        }
    }

    /// Single use: the old refresh token ends now, the old access token when the new one is first used.
    private func refresh(
        _ form: Form,
        _ state: inout WorldState,
        _ now: Int64,
        _ call: Switches.TokenCall
    ) -> TokenAnswer {
        guard let value = form["refresh_token"] else {
            return .refused(.oauthError("invalid_request", "Invalid refresh_token parameter or parameter missing"))
        }
        let spent: IssuedToken
        switch state.registry.lookUp(value, at: now) {
        case .live(let token)
        where token.kind == .refresh && token.authority == .box && token.client == form["client_id"]:
            spent = token
        case .spent:
            state.counters.doubleSpends[.box, default: 0] += 1
            return .refused(.oauthError("invalid_grant", "Refresh token has expired"))
        case .expired: return .refused(.oauthError("invalid_grant", "Refresh token has expired"))
        case .live, .revoked, .unknown: return .refused(.oauthError("invalid_grant", "Invalid refresh token"))
        }
        let grant = WorldState.Grant(renewing: spent, lifetime: call.lifetime)
        let access = state.issueSuccessor(grant, at: now)
        var members = answer(access, lifetime: state.lifetime(of: grant))
        if call.rotatesRefreshToken {
            state.registry.spend(value)
            members.append(("refresh_token", .string(state.issue(.refresh, grant, at: now).value)))
        }
        return .granted(members)
    }

    /// RFC 8693, as Box uses it to hand out a weaker token: no client credentials, no refresh token.
    private func exchange(
        _ form: Form,
        _ state: inout WorldState,
        _ now: Int64,
        _ call: Switches.TokenCall
    ) -> TokenAnswer {
        guard form["subject_token_type"] == Self.tokenType, let value = form["subject_token"],
            let scope = form["scope"]
        else { return .refused(.oauthError("invalid_request", "Invalid subject_token parameter or parameter missing")) }
        guard case .live(let parent) = state.registry.lookUp(value, at: now), parent.kind == .access,
            parent.authority == .box
        else { return .refused(.oauthError("invalid_grant", "Invalid subject token")) }
        guard form["resource"] == nil || form["box_shared_link"] == nil else {
            return .refused(.oauthError("invalid_request", "resource and box_shared_link cannot be combined"))
        }
        let scopes = scope.split(separator: " ").map(String.init)
        guard scopes.allSatisfy({ parent.scopes.isEmpty ? BoxScopes.all.contains($0) : parent.scopes.contains($0) })
        else {
            return .refused(.oauthError("invalid_scope", "The scope is not held", status: .unauthorized))
        }
        let grant = WorldState.Grant(
            authority: .box,
            client: parent.client,
            subject: parent.subject,
            scopes: scopes,
            family: parent.family,
            lifetime: call.lifetime
        )
        let child = state.issue(.access, grant, at: now)
        var members = answer(child, lifetime: state.lifetime(of: grant)).filter { $0.0 != "restricted_to" }
        members.append(("restricted_to", .array(scopes.map { Self.restriction($0, to: form["resource"]) })))
        members.append(("issued_token_type", .string(Self.tokenType)))
        return .granted(members)
    }

    private static func restriction(_ scope: String, to resource: String?) -> JSON {
        guard let parts = resource?.split(separator: "/").suffix(2), parts.count == 2 else {
            return ["scope": .string(scope)]
        }
        let type = String(parts.first?.dropLast() ?? "")
        return [
            "scope": .string(scope),
            "object": [
                "type": .string(type), "id": .string(String(parts.last ?? "")), "sequence_id": "0", "etag": "0",
                "name": .string("sandbox \(type)"),
            ],
        ]
    }

    private func answer(_ token: IssuedToken, lifetime: Int) -> [(String, JSON)] {
        [
            ("access_token", .string(token.value)), ("expires_in", .integer(lifetime)),
            ("restricted_to", .array([])), ("token_type", "bearer"),
        ]
    }

    /// Either token of a pair ends both.
    private func revoke(_ request: Request) async throws -> Response {
        guard let form = try await TokenCalls.form(of: request), let value = form["token"] else {
            return .oauthError("invalid_request", "Invalid token parameter or parameter missing")
        }
        guard isKnownClient(form) else {
            return .oauthError("invalid_client", "The client credentials are invalid")
        }
        world.withState { state, now in state.revokeFamily(of: value, issuedBy: .box, to: form["client_id"], at: now) }
        return .empty(.ok)
    }
}

/// A signed assertion, judged as Box judges it.
private struct BoxAssertion: Sendable {
    static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    private static let audience = "https://api.box.com/oauth2/token"

    /// In the words of Box.
    enum Refusal: String, Error {
        case malformed = "Invalid assertion parameter or parameter missing"
        case badSignature = "OAuth JWT signature is invalid"
        case unknownKey = "Please check the 'kid' header. The 'kid' specified is invalid."
        case wrongIssuer = "Please check the 'iss' claim. The 'iss' specified is invalid."
        case wrongAudience = "Please check the 'aud' claim. The 'aud' specified is invalid."
        case unknownSubject = "Please check the 'sub' claim. The 'sub' specified is invalid."
        case expired = "Current date/time MUST be before the expiration date/time listed in the 'exp' claim"
        case tooLong = "The 'exp' value exceeds the maximum value of 60 seconds beyond the issue time"
        case notYet =
            "Current date/time MUST be after or equal to the not-before date/time listed in the 'nbf' or 'iat' claim"
        case replayed = "A unique 'jti' value is required"
    }

    private let header: JSONValue
    private let claims: JSONValue

    var subject: String { claims["sub"]?.string ?? "" }
    var subjectType: String { claims["box_sub_type"]?.string ?? "" }

    /// Verifies the signature.
    init(_ text: String) throws(Refusal) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.json(parts[0]), let claims = Self.json(parts[1]),
            let signature = Base64.decodeURL(parts[2])
        else { throw .malformed }
        guard header["kid"]?.string == BoxKeyPair.keyID else { throw .unknownKey }
        let signed = Array("\(parts[0]).\(parts[1])".utf8)
        guard Self.isValid(signature, of: signed, algorithm: header["alg"]?.string) else { throw .badSignature }
        self.header = header
        self.claims = claims
    }

    private static func json(_ part: Substring) -> JSONValue? {
        Base64.decodeURL(part).flatMap { JSONValue($0) }
    }

    private static func isValid(_ bytes: [UInt8], of signed: [UInt8], algorithm: String?) -> Bool {
        guard let key = try? _RSA.Signing.PublicKey(pemRepresentation: BoxKeyPair.publicKey) else { return false }
        let signature = _RSA.Signing.RSASignature(rawRepresentation: bytes)
        switch algorithm {
        case "RS256":
            return key.isValidSignature(signature, for: SHA256.hash(data: signed), padding: .insecurePKCS1v1_5)
        case "RS384":
            return key.isValidSignature(signature, for: SHA384.hash(data: signed), padding: .insecurePKCS1v1_5)
        case "RS512":
            return key.isValidSignature(signature, for: SHA512.hash(data: signed), padding: .insecurePKCS1v1_5)
        default: return false
        }
    }

    /// - Parameters:
    ///   - now: In milliseconds since 1970.
    ///   - used: Every `jti` so far; this one joins them.
    func check(for client: String, at now: Int64, against used: inout Set<String>) throws(Refusal) {
        guard claims["iss"]?.string == client else { throw .wrongIssuer }
        guard claims["aud"]?.string == Self.audience else { throw .wrongAudience }
        let seconds = Double(now) / 1000
        for name in ["iat", "nbf"] {
            if case .number(let time)? = claims[name], time.value > seconds { throw .notYet }
        }
        guard case .number(let end)? = claims["exp"], end.value > seconds else { throw .expired }
        guard end.value <= seconds + 60 else { throw .tooLong }
        guard let id = claims["jti"]?.string, (16...128).contains(id.utf8.count), used.insert(id).inserted else {
            throw .replayed
        }
    }
}

/// The key pair of the sandbox's Box app. It is the same in every sandbox and protects nothing.
private enum BoxKeyPair {
    static let keyID = "sandboxkey"
    static let passphrase = "sandbox-box-passphrase"

    static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAt244CZip50bshVtqDCum
        lBm84Zy1egql6tCbgmMegcJ934KfjIVXd//TRSGlMAw8k+GnFMF9WXq99ttM7Q5Y
        Pdo0WS8zBJxBFk66zqqLj5uojBRm88YQoYp8e1IYxeSso72hUyaxqfDr1ISExdyV
        bIG6ABg+G46mgBuv8tz8dX144Sbk9uc5OXtTlQrAfN0FpHMxQSRo97XQMJmM0Dyg
        JUqpDmRtznrd8A3ftjBUu3qmvCKxXRcN0aVhSs0vJs4Jl0+E73/neFDD5DF9kSeX
        t4cpfovx4i2G3Smlvh//A45E4WCA7fu2sIoM3xAFQIp4wLwDlDXjOdWQEioKgp0V
        UQIDAQAB
        -----END PUBLIC KEY-----
        """

    /// PKCS#8, encrypted with AES-256.
    static let privateKey = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIIFLTBXBgkqhkiG9w0BBQ0wSjApBgkqhkiG9w0BBQwwHAQIiQAbDRJu8wICAggA
        MAwGCCqGSIb3DQIJBQAwHQYJYIZIAWUDBAEqBBBVheJjgXbwEVnUOMkzcJREBIIE
        0BVg59HgGfHli1jYOihQKqsAQAFqlrkOFgdAvVOhvboopo+etDJo+96+kKKQxFQy
        O8R+FW3e+psZsUqOD+ImT41dd8/z3dzKN65/no+zwUenm+05JFrltTM8aUvpZao6
        nw0o2fPZ97VwcCTlZl0rkQQBttt8+Ex7i0ffkyREnSA3W/0Ygy6AJUgjYvIs8DjQ
        RgdGhriv9r2zvG7vVJJ7USyVg2z39psOfBtDPwtAm/aHVt2EDkzzy6ZXed0/qSxY
        rtzLvAUJpeZotgIQvrAFkDtezt+nKgDnM0C4m5dP3jMBQT7j5HZbkeqYRrs9r96p
        JvGqCAxUI1g942fkIFtP6dN2rs71Ua0i1+GlztuBBAGZE6JvSQRaIF7USkw70pQn
        Y+bsENFuvlYy+kdC9vXCMz75VfyDxfbhbUTcmcKDxRIo0UOh41SdFmV92IVs48p7
        EKlZHRZdsEt0lpD66sPukssIZrQV/bqfySa2WPInQ5F/gL311FQ8noMF2BvxOVyG
        +DjsjS/dqP80cDv2CxNQd6Sa/aDJdfG7BTwHei+MKeQChmo/ZrtR6tEobfrnl60/
        AMVPmOD8iHxFS7AMpuHdyALdsVSbDBW1yofwwIa4jq8WR3iB4vnzgJw/nXqxlHRw
        eEusywBubcrrc5hpVqRElGCFwlnwxNIZD20I3N6eW74ys9TAAHNU/419jatD4zDD
        urYqGxXdL8t0GSpr9FY8cbtxM1IRKGanJB0HEsu7wLDJFZq3ZWJJLs84na58SvBc
        SND635wEdflQTl1Lcd9lnnOXiQmZs4JbRsGD5TfyrdgMJuAc/eRpyMmitfsZEIbh
        E8Ep3DLmpYHwIQKNYT6IOb9/p7B5uoYe3VJP2c0utgdNrzau8Nu6s72yX1NtS9yI
        jHjwPy/So4Q/5wfvYO8h7ZsKOoitmWppxwTyEufGNhvQf+NDHEYRNevfvlXv/0iO
        Ur1cHQjQpxHZ/o9jsqRWmNdol6aQOZqX9vvgm9ZTTCDB7WON75p6om8hkHqADsGf
        Mhz9CT+NbTpEplPFcHyHEd5vMLY6JCdLU2N/9YALTRWLiQRWfgDXrhtXiE3FLmvi
        xBnFsURee23pHbnq8nhuY3oW71ULd9bBXeKWxvGuULety4Y64+iZsGzcRZRU2pAL
        0rSXJeV22+ycWnIj3BQKGAXVMc7ftILECRHNYXsSAtVwTrtELHkhXmss4auTL9DB
        H8j356QLnjHXtbP9DKiY6LTOfjXU8LXd2AXNAdffEK0xmBfG3OaxeVdZe/499EXp
        sJJR+wuytQeuAyg81x2mpk+HbRW5aX8NN5DR+OeiQwOtuZGAj4cAc8LMkl/FShp3
        L6Kbkr/lPDKaSiOdBftQSiyJtsWWSKLfSZ2TA8KXiUhqeg0dr1/JCisNAbKnp6GK
        E52KtZYsGbBjsqRKbLHRlVqY18n1u6nSFfkd1hYTKs1r/B1EElG/LSTbZ4XeT+GM
        wxN4hWnkO1V713v1oS9igMo2Y4kMwgu9baqt9BJfNLDZAKG4y9pyUtQVN3hznCls
        5HLuAwGMJHLkKdBagrxH1z7w87Avj9K9LiJsqHsLV9UDjoDZFoZEgDVrh/6qUOdH
        dUDwJnIhZFOGJMh0MkkjJ8pnOp8UZaUoL8aAl1r50VgT
        -----END ENCRYPTED PRIVATE KEY-----
        """
}

extension Accounts {
    /// What Box's developer console hands out with a new key pair.
    var boxAppSettings: JSON {
        [
            "boxAppSettings": [
                "clientID": .string(boxClients[0].id), "clientSecret": .string(boxClients[0].secret),
                "appAuth": [
                    "publicKeyID": .string(BoxKeyPair.keyID), "privateKey": .string(BoxKeyPair.privateKey + "\n"),
                    "passphrase": .string(BoxKeyPair.passphrase),
                ],
            ],
            "enterpriseID": .string(boxEnterprise),
        ]
    }
}
