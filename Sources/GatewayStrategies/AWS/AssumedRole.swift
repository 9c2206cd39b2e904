import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// A role and how STS is asked for temporary keys of it: the block `assume_role`
/// (docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html, …/API_AssumeRoleWithWebIdentity.html).
struct AssumedRole: Sendable {
    /// Who asks for the role.
    enum Caller: Sendable {
        /// - Parameter parent: The credential that they belong to; nil if they stand in the same block.
        case keys(AWSRequestSigner.Keys, of: GrantIdentity?)
        /// Another credential with temporary keys.
        case parent(any TokenGrant)
        /// An identity from another issuer, proven by its token. The request is not signed.
        case webIdentity(AssertionSource)
    }

    static let authority = "AWS STS"
    /// The limit for a role that is assumed with the keys of a role (role chaining).
    static let longestChained = Duration.seconds(3600)

    let arn: String
    let duration: Duration
    let url: AuthorityURL
    private let options: Options
    private let region: String
    /// nil until the parent is known.
    private(set) var caller: Caller?

    func asked(by caller: Caller) -> AssumedRole {
        var role = self
        role.caller = caller
        return role
    }

    var signs: Bool { if case .webIdentity? = caller { false } else { true } }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("role_arn", arn)
        identity.add("session_name", options.sessionName)
        identity.add("external_id", options.externalID)
        identity.add("duration", String(duration.components.seconds))
        identity.add("token_url", url.text)
        identity.add("sts_region", region)
        switch caller {
        case .keys(let keys, of: nil)?:
            identity.add("access_key_id", keys.id)
            identity.add("secret_access_key", secret: keys.secret)
            identity.add("session_token", secret: keys.token)
        case .keys(_, of: let parent?)?: identity.add(parent: parent)
        case .parent(let parent)?:
            identity.add("parent.strategy", parent.identity.strategy)
            identity.add(parent: parent.identity)
        case .webIdentity(let source)?: source.addInputs(to: &identity, as: "web_identity")
        case nil: break
        }
    }

    // MARK: Asking

    func request(in attempt: GrantAttempt) throws(TokenFailure) -> TokenRequest {
        let accept = Injection.Field(name: "Accept", value: Secret("text/xml"))
        let keys: AWSRequestSigner.Keys?
        switch caller {
        case .webIdentity(let source)?:
            var request = TokenRequest(url: url, fields: [accept], body: .form(form("AssumeRoleWithWebIdentity")))
            request.issuedParameters = [TokenRequest.IssuedParameter("WebIdentityToken", from: source)]
            return request
        case .keys(let own, of: _)?: keys = own
        case .parent?, nil: keys = attempt.parentToken.flatMap { AWSTemporaryKeys($0)?.keys }
        }
        guard let keys else {
            let detail = "The token of the parent does not consist of AWS keys."
            throw TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail))
        }
        let type = "application/x-www-form-urlencoded"
        let body = FormEncoding.encode(form("AssumeRole"))
        let request = SignableRequest(
            method: "POST",
            path: Array(url.target.utf8),
            query: nil,
            isTLS: url.origin.scheme == .https,
            host: url.origin.authority,
            fields: [SignableRequest.Field(name: "content-type", value: Array(type.utf8), isForwarded: true)],
            added: [],
            hasBody: true,
            time: attempt.now.wall
        )
        let plan = AWSRequestSigner(keys: keys, regions: [region], services: ["sts"]).plan(for: request)
        switch plan.flatMap({ $0.sign(at: attempt.now.wall, body.span) }) {
        case .success(let signature):
            return TokenRequest(
                url: url,
                fields: [accept] + signature.fields,
                body: .content(type: type, Secret(String(decoding: body, as: UTF8.self)))
            )
        case .failure(let problem): throw TokenFailure(.terminal, problem: problem)
        }
    }

    private func form(_ action: String) -> [TokenRequest.Parameter] {
        var form = [
            TokenRequest.Parameter("Action", action), TokenRequest.Parameter("Version", "2011-06-15"),
            TokenRequest.Parameter("RoleArn", arn), TokenRequest.Parameter("RoleSessionName", options.sessionName),
            TokenRequest.Parameter("DurationSeconds", String(duration.components.seconds)),
        ]
        if let id = options.externalID { form.append(TokenRequest.Parameter("ExternalId", id)) }
        return form
    }

    /// The keys in an answer with the status 200.
    func keys(in reply: TokenReply) throws(BrokenAnswer) -> AWSTemporaryKeys {
        let action = signs ? "AssumeRole" : "AssumeRoleWithWebIdentity"
        guard let texts = XMLTexts(reply.body) else {
            throw BrokenAnswer(reason: "the body is not XML as STS writes it")
        }
        func text(_ name: String) -> String? { texts["\(action)Response/\(action)Result/Credentials/\(name)"] }
        guard let token = text("SessionToken"), let expiration = text("Expiration") else {
            throw BrokenAnswer(reason: "there are no temporary keys in it")
        }
        return try AWSTemporaryKeys(
            id: text("AccessKeyId"),
            secret: text("SecretAccessKey"),
            token: token,
            expiration: expiration
        )
    }
}

// MARK: Configuration

extension AssumedRole {
    fileprivate struct Options {
        var sessionName = "authgateway"
        var externalID: String?
        var duration = Duration.seconds(3600)
        var region: String?
    }

    private static let keys = Keys(Options()) {
        $0("role_arn", example: "arn:aws:iam::123456789012:role/reader")
            .means("The ARN of the role.")
        $0("session_name", \.sessionName, .text, example: "reports")
            .means("The session name, which CloudTrail shows.")
        $0("external_id", \.externalID, .text, example: "{env: EXTERNAL_ID}")
            .means("The external ID that the role's trust policy requires.")
        $0("duration", \.duration, .duration(.seconds(900) ... .seconds(43_200)), example: "15m")
            .means("How long the keys are valid, up to the role's maximum. With the keys of another role, at most 1h.")
        $0(
            "region",
            \.region,
            .text,
            default: "that of token_url, or region of the credential",
            example: "eu-central-1"
        )
        .means("The region whose STS is asked.")
        $0("token_url", default: "the region's endpoint", example: "https://sts.eu-central-1.amazonaws.com")
            .means("The URL of STS, such as that of a VPC endpoint.")
    }

    /// Reads `assume_role`. nil without it, or after a mistake.
    ///
    /// - Parameter usualRegion: The only region that requests may be signed for; nil if there are several.
    init?(in fields: ConfigFields, usualRegion: String?) {
        guard let own = fields.fields("assume_role") else { return nil }
        defer { own.refuseUnknownKeys() }
        let errors = own.context.errorCount
        var options = Self.keys.defaults
        Self.keys.read(own, into: &options)
        let arn = own.requiredString("role_arn")
        let url = own.authorityURL("token_url")
        if let arn, !Self.isRole(arn) {
            own.error("role_arn", "expected the ARN of a role, such as arn:aws:iam::123456789012:role/reader")
        }
        let name = options.sessionName
        if !(2...64).contains(name.utf8.count) || !Self.consists(name, of: "=,.@-") {
            own.error("session_name", "expected 2 to 64 letters, digits and any of _=,.@+-")
        }
        if let id = options.externalID, !(2...1224).contains(id.utf8.count) || !Self.consists(id, of: "=,.@:/-") {
            own.error("external_id", "expected 2 to 1224 letters, digits and any of _=,.@:/+-")
        }
        guard let arn, own.context.errorCount == errors,
            let (url, region) = Self.place(options.region, url, usualRegion, of: arn, in: own)
        else { return nil }
        self.arn = arn
        self.options = options
        duration = options.duration
        self.url = url
        self.region = region
    }

    /// Where STS is asked, and the region that the request is signed for.
    private static func place(
        _ region: String?,
        _ url: AuthorityURL?,
        _ usualRegion: String?,
        of arn: String,
        in fields: ConfigFields
    ) -> (AuthorityURL, String)? {
        let host = url.map { AWSEndpoint($0.origin.host) }
        guard let chosen = region ?? host?.region ?? usualRegion else {
            fields.error("missing key \"region\": the region whose STS is asked")
            return nil
        }
        guard AWSRequestSigner.isScopePart(chosen) else {
            fields.error("region", "expected a region, such as eu-central-1")
            return nil
        }
        if let url {
            if url.text.contains("?") { fields.error("token_url", "must not have a query") }
            if let host, let own = host.region, !host.isGlobal, own != chosen {
                fields.error("token_url", "is in the region \(own), but region is \(chosen)")
            }
            return (url, chosen)
        }
        guard let domain = domains[arn.split(separator: ":").dropFirst().first ?? ""],
            let url = try? AuthorityURL("https://sts.\(chosen).\(domain)")
        else {
            fields.error("missing key \"token_url\": the endpoint of STS in the partition of \(arn) is not known")
            return nil
        }
        return (url, chosen)
    }

    /// The domains of partitions (docs.aws.amazon.com/whitepapers/latest/aws-fault-isolation-boundaries/partitions.html).
    private static let domains: [Substring: String] = [
        "aws": "amazonaws.com", "aws-cn": "amazonaws.com.cn", "aws-eusc": "amazonaws.eu",
        "aws-us-gov": "amazonaws.com",
    ]

    private static func isRole(_ arn: String) -> Bool {
        let parts = arn.split(separator: ":", omittingEmptySubsequences: false)
        return parts.count == 6 && arn.utf8.count <= 2048 && parts[0] == "arn" && !parts[1].isEmpty
            && parts[2] == "iam" && parts[3].isEmpty && parts[4].utf8.count == 12
            && parts[4].utf8.allSatisfy { (0x30...0x39).contains($0) } && parts[5].hasPrefix("role/")
            && arn.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }

    /// - Parameter others: What may stand beside letters, digits, `_` and `+`.
    private static func consists(_ text: String, of others: String) -> Bool {
        text.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "_"), UInt8(ascii: "+"): true
            default: others.utf8.contains(byte)
            }
        }
    }
}
