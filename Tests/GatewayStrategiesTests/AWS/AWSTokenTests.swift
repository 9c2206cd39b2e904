import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

private typealias Entries = [(String, FixtureNode)]

private let key: Entries = [("access_key_id", "AKIDBASE"), ("secret_access_key", "canary-base-key")]
private let arn = "arn:aws:iam::123456789012:role/reader"

private func block(_ entries: Entries, role: Entries? = []) -> FixtureNode {
    guard let role else { return .mapping(entries) }
    let own: Entries = role.contains { $0.0 == "role_arn" } ? role : [("role_arn", "\(arn)")] + role
    return .mapping(entries + [("assume_role", .mapping(own))])
}

private func answer(_ action: String = "AssumeRole", expiration: String = "2026-03-01T10:30:00Z") -> TokenReply {
    TokenReply(
        200,
        """
        <\(action)Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
          <\(action)Result>
            <AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/reader/authgateway</Arn></AssumedRoleUser>
            <Credentials>
              <AccessKeyId>ASIATEMPORARY</AccessKeyId>
              <SecretAccessKey>canary/temporary+key</SecretAccessKey>
              <SessionToken>canary-session-token==</SessionToken>
              <Expiration>\(expiration)</Expiration>
            </Credentials>
          </\(action)Result>
          <ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>
        </\(action)Response>
        """
    )
}

private func refusal(_ status: Int, _ code: String) -> TokenReply {
    let error = "<Error><Type>Sender</Type><Code>\(code)</Code><Message>canary-words</Message></Error>"
    return TokenReply(status, "<ErrorResponse>\(error)<RequestId>1</RequestId></ErrorResponse>")
}

private func printed(_ more: String = #", "SessionToken": "canary-session""#) -> String {
    #"{"Version": 1, "AccessKeyId": "ASIAPRINTED", "SecretAccessKey": "canary-key"\#(more)}"#
}

private func body(_ request: TokenRequest) -> String {
    switch request.body {
    case .none: ""
    case .form(let form): String(decoding: FormEncoding.encode(form), as: UTF8.self)
    case .content(_, let content): content.text
    }
}

private func field(_ name: String, _ fields: [Injection.Field]) -> String? {
    fields.first { $0.name == name }?.value.text
}

/// The fields of a request to S3 that is signed with this token.
private func fields(signedWith token: TokenSet, of grant: any TokenGrant) throws -> [Injection.Field] {
    guard case .everyRequest(let signer)? = grant.signer(with: token) else { throw WrongKind() }
    let request = SignableRequest(
        method: "GET",
        path: Array("/bucket/key".utf8),
        query: nil,
        isTLS: true,
        host: "s3.eu-central-1.amazonaws.com",
        fields: [],
        added: [],
        hasBody: false,
        time: now.wall
    )
    return try signer.plan(for: request).get().sign(at: now.wall, [UInt8]().span).get().fields
}

@Suite("AWS: temporary keys of a role", .timeLimit(.minutes(5)))
struct AWSTokenTests {
    private static let options: Entries = [
        ("session_name", "reports"), ("external_id", "partner:1"), ("duration", "15m"), ("region", "eu-central-1"),
    ]

    private func role(_ more: Entries = options) throws -> any TokenGrant {
        try grant("aws_sigv4", block(key, role: more))
    }

    @Test func theRequestIsSignedForTheRegionalEndpoint() throws {
        let request = try request(of: role().firstStep(holding: nil, at: now))
        #expect(request.method == .post)
        #expect(request.url.text == "https://sts.eu-central-1.amazonaws.com")
        #expect(
            body(request)
                == "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Freader"
                + "&RoleSessionName=reports&DurationSeconds=900&ExternalId=partner%3A1"
        )
        #expect(field("Accept", request.fields) == "text/xml")
        #expect(field("X-Amz-Date", request.fields) == "20260301T093000Z")
        #expect(field("X-Amz-Security-Token", request.fields) == nil)
        let authorization = try #require(field("Authorization", request.fields))
        #expect(
            authorization.hasPrefix(
                "AWS4-HMAC-SHA256 Credential=AKIDBASE/20260301/eu-central-1/sts/aws4_request,"
                    + " SignedHeaders=content-type;host;x-amz-date, Signature="
            )
        )
    }

    @Test func defaultsAreThoseOfAWS() throws {
        let grant = try grant(
            "aws_sigv4",
            block(key + [("region", "cn-north-1")], role: [("role_arn", "arn:aws-cn:iam::123456789012:role/a/b")])
        )
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        #expect(request.url.text == "https://sts.cn-north-1.amazonaws.com.cn")
        #expect(body(request).hasSuffix("&RoleSessionName=authgateway&DurationSeconds=3600"))
    }

    @Test func temporaryBaseKeysSendTheirToken() throws {
        let grant = try grant("aws_sigv4", block(key + [("session_token", "canary-base-token")], role: Self.options))
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        #expect(field("X-Amz-Security-Token", request.fields) == "canary-base-token")
        #expect(field("Authorization", request.fields)?.contains("host;x-amz-date;x-amz-security-token") == true)
    }

    @Test func requestsAreSignedWithItsKeys() throws {
        let grant = try role()
        let token = try grant.interpret(answer(), holding: nil, at: now).get()
        #expect(token.expiresAt == UnixTime(rfc3339: "2026-03-01T10:30:00Z"))
        #expect(grant.injection(of: token).isEmpty)
        let fields = try fields(signedWith: token, of: grant)
        #expect(field("X-Amz-Security-Token", fields) == "canary-session-token==")
        let authorization = try #require(field("Authorization", fields))
        #expect(authorization.contains("Credential=ASIATEMPORARY/20260301/eu-central-1/s3/aws4_request"))
    }

    @Test func theTokenIsWhatCredentialProcessPrints() throws {
        let token = try role().interpret(answer(), holding: nil, at: now).get()
        let program = try grant("aws_sigv4", ["credential_process": ["print-keys"]])
        let reply = TokenReply(output: Array(token.access.text.utf8))
        #expect(try program.interpret(reply, holding: nil, at: now).get() == token)
        // Keys that an operator brings end when they say so.
        #expect(try role().completing(TokenSet(access: token.access, obtainedAt: now.wall)) == token)
    }

    @Test func aTokenThatIsNotMadeOfKeysSignsNothing() throws {
        let grant = try role()
        let token = TokenSet(access: Secret("imported"), obtainedAt: now.wall)
        guard case .everyRequest(let signer)? = grant.signer(with: token) else { throw WrongKind() }
        #expect(throws: GatewayProblem.self) { try fields(signedWith: token, of: grant) }
        #expect(signer.ownedFields.contains("Authorization"))
    }

    @Test func itKeepsItsPromises() throws {
        try TokenGrantConformance(role(), success: answer(), answersErrorsInOAuth: false).check()
    }

    @Test(arguments: [
        "<AssumeRoleResponse/>", "<html></html>", #"{"Credentials": {}}"#,
        "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>A</AccessKeyId></Credentials></AssumeRoleResult>"
            + "</AssumeRoleResponse>",
    ])
    func anAnswerWithoutKeysIsTriedAgain(_ body: String) throws {
        let failure = try #require(role().interpret(TokenReply(200, body), holding: nil, at: now).failure)
        #expect(failure.mayPass)
    }

    @Test func keysMustEndAtATime() throws {
        #expect(try role().interpret(answer(expiration: "soon"), holding: nil, at: now).failure?.mayPass == true)
    }

    // MARK: Refusals

    @Test(arguments: [
        (403, "AccessDenied", "sts:AssumeRole"), (403, "AccessDeniedException", "trust policy"),
        (403, "ExpiredToken", "have expired"), (403, "InvalidClientTokenId", "check access_key_id"),
        (403, "SignatureDoesNotMatch", "check secret_access_key"), (400, "MalformedPolicyDocument", "policy"),
        (403, "RegionDisabledException", "activate it there"), (400, "ValidationError", "maximum session duration"),
        (404, "NotKnown", "check token_url"), (302, "", "set token_url"),
    ])
    func refusalsSayWhatToDo(_ status: Int, _ code: String, _ advice: String) throws {
        let failure = try #require(role().interpret(refusal(status, code), holding: nil, at: now).failure)
        #expect(failure.class == .terminal)
        #expect(failure.problem.kind == .credentialMisconfigured)
        #expect(failure.problem.detail.contains(arn))
        #expect(failure.problem.detail.contains(advice))
        #expect(!failure.problem.detail.contains("canary"))
    }

    @Test(arguments: [
        (400, "Throttling"), (400, "ThrottlingException"), (429, ""), (500, "InternalFailure"), (503, ""),
    ])
    func aBusyServiceIsAskedAgain(_ status: Int, _ code: String) throws {
        let failure = try #require(role().interpret(refusal(status, code), holding: nil, at: now).failure)
        #expect(failure.class == .transient(retryAfter: nil))
    }

    @Test func aRefusedTimeIsSignedAgainWithTheServicesClock() throws {
        let reply = TokenReply(
            status: 403,
            fields: [TokenReply.Field(name: "Date", value: "Sun, 01 Mar 2026 10:00:00 GMT")],
            body: refusal(403, "SignatureDoesNotMatch").body
        )
        var attempt = GrantAttempt.sample(holding: nil, at: now)
        attempt.answers = 1
        guard case .next(let request) = try role().interpret(reply, in: &attempt) else { throw WrongKind() }
        #expect(field("X-Amz-Date", request.fields) == "20260301T100000Z")
        attempt.answers = 2
        guard case .failure = try role().interpret(reply, in: &attempt) else { throw WrongKind() }
    }

    // MARK: Parents

    private func child(_ role: Entries = options, of parent: FixtureNode) throws -> any TokenGrant {
        let strategy = try #require(
            try decode("aws_sigv4", block([("parent", "base")], role: role)) as? any DerivedStrategy
        )
        #expect(strategy.parent?.name == "base")
        let made =
            switch try decode("aws_sigv4", parent).behavior {
            case .token(let grant): try strategy.made(from: grant)
            case .signed(let signer): try strategy.made(from: signer)
            default: throw WrongKind()
            }
        guard case .token(let grant) = made.behavior else { throw WrongKind() }
        return grant
    }

    @Test func theKeysOfAnotherRoleAskForIt() throws {
        let child = try child(of: block(key, role: Self.options))
        var attempt = GrantAttempt.sample(holding: nil, at: now)
        attempt.parentToken = try role().interpret(answer(), holding: nil, at: now).get().access
        let request = try request(of: child.firstStep(of: attempt))
        #expect(field("Authorization", request.fields)?.contains("Credential=ASIATEMPORARY/") == true)
        #expect(field("X-Amz-Security-Token", request.fields) == "canary-session-token==")
        attempt.answers = 1
        guard case .parentRefused = child.interpret(refusal(403, "ExpiredToken"), in: &attempt) else {
            throw WrongKind()
        }
        guard case .failure = child.interpret(refusal(403, "AccessDenied"), in: &attempt) else { throw WrongKind() }
    }

    @Test func aParentWithoutKeysAsksForNothing() throws {
        guard case .impossible = try child(of: block(key, role: Self.options)).firstStep(holding: nil) else {
            throw WrongKind()
        }
    }

    @Test func theAccessKeyOfAnotherCredentialAsksForIt() throws {
        let child = try child(of: .mapping(key))
        let request = try request(of: child.firstStep(holding: nil, at: now))
        #expect(field("Authorization", request.fields)?.contains("Credential=AKIDBASE/") == true)
        #expect(try child.identity != role().identity)
    }

    @Test func chainedRolesLastAnHour() throws {
        let long: Entries = Self.options.filter { $0.0 != "duration" } + [("duration", "2h")]
        #expect(throws: UnusableInput.self) { try child(long, of: block(key, role: Self.options)) }
        _ = try child(long, of: .mapping(key))
        _ = try child(long, of: ["credential_process": ["print-keys"]])
    }

    @Test func onlyKeysOfAWSMakeAParent() throws {
        let strategy = try #require(
            try decode("aws_sigv4", block([("parent", "base")], role: Self.options)) as? any DerivedStrategy
        )
        guard case .token(let token) = try decode("exec", ["command": ["print-token"]]).behavior else {
            throw WrongKind()
        }
        #expect(throws: UnusableInput.self) { try strategy.made(from: token) }
    }

    // MARK: Identities

    @Test func everythingMakesAnotherToken() throws {
        let options: [Entries] = [
            [("session_name", "other")], [("external_id", "other")], [("duration", "30m")],
            [("token_url", "https://vpce-1.sts.eu-central-1.vpce.amazonaws.com")],
            [("role_arn", "arn:aws:iam::123456789012:role/other")],
        ]
        let region: (String, FixtureNode) = ("region", "eu-central-1")
        var grants = try ([[]] + options).map { try role([region] + $0) }
        grants.append(try role([("region", "us-east-1")]))
        for more in [("session_token", "t"), ("region", ["eu-central-1", "us-east-1"]), ("service", "s3")] as Entries {
            grants.append(try grant("aws_sigv4", block(key + [more], role: [region])))
        }
        grants.append(try child([region], of: .mapping(key)))
        grants.append(try child([region], of: block(key, role: [region])))
        grants.append(try grant("aws_sigv4", block([("web_identity", ["file": "/run/token"])], role: [region])))
        grants.append(try grant("aws_sigv4", ["credential_process": ["print-keys"]]))
        grants.append(try grant("aws_sigv4", ["credential_process": ["print-keys", "--other"]]))
        try TokenGrantConformance.checkIdentitiesDiffer(grants)
    }
}

@Suite("AWS: web identity", .timeLimit(.minutes(5)))
struct AWSWebIdentityTests {
    private func role() throws -> any TokenGrant {
        try grant(
            "aws_sigv4",
            block([("web_identity", ["file": "/run/token"])], role: [("region", "eu-central-1"), ("duration", "1h")])
        )
    }

    @Test func aTokenAsksInsteadOfASignature() throws {
        let request = try request(of: role().firstStep(holding: nil, at: now))
        #expect(
            body(request)
                == "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"
                + "&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Freader&RoleSessionName=authgateway&DurationSeconds=3600"
        )
        #expect(
            request.issuedParameters == [TokenRequest.IssuedParameter("WebIdentityToken", from: .file("/run/token"))]
        )
        #expect(request.fields.map(\.name) == ["Accept"])
        try TokenGrantConformance(role(), success: answer("AssumeRoleWithWebIdentity"), answersErrorsInOAuth: false)
            .check()
    }

    @Test(arguments: [
        (403, "AccessDenied", "iss, aud and sub"), (400, "InvalidIdentityToken", "IAM identity provider"),
        (403, "IDPRejectedClaim", "web_identity"),
    ])
    func refusalsSayWhatToDo(_ status: Int, _ code: String, _ advice: String) throws {
        let failure = try #require(role().interpret(refusal(status, code), holding: nil, at: now).failure)
        #expect(failure.class == .terminal)
        #expect(failure.problem.detail.contains(advice))
    }

    @Test(arguments: ["ExpiredTokenException", "IDPCommunicationError"])
    func anotherTokenIsTriedLater(_ code: String) throws {
        #expect(
            try role().interpret(refusal(400, code), holding: nil, at: now).failure?.class
                == .transient(retryAfter: nil)
        )
    }
}

@Suite("AWS: keys that a program prints", .timeLimit(.minutes(5)))
struct CredentialProcessTests {
    private func process() throws -> any TokenGrant {
        try grant("aws_sigv4", ["credential_process": ["print-keys", "--account", "a b"], "region": "eu-central-1"])
    }

    private func token(_ output: String) throws -> Result<TokenSet, TokenFailure> {
        try process().interpret(TokenReply(output: Array(output.utf8)), holding: nil, at: now)
    }

    @Test func theProgramIsDescribed() throws {
        guard case .run(let program) = try process().firstStep(holding: nil) else { throw WrongKind() }
        #expect(program.command == ["print-keys", "--account", "a b"])
        #expect(program.timeout == TokenRequest.longestCall)
        #expect(try process().authorityEndpoints.isEmpty)
        try TokenGrantConformance(
            process(),
            success: TokenReply(output: Array(printed().utf8)),
            answersErrorsInOAuth: false
        )
        .check()
    }

    @Test func requestsAreSignedWithItsKeys() throws {
        let token = try token(
            printed(#", "SessionToken": "canary-session", "Expiration": "2026-03-01T10:00:00+00:00""#)
        ).get()
        #expect(token.expiresAt == UnixTime(rfc3339: "2026-03-01T10:00:00Z"))
        let fields = try fields(signedWith: token, of: process())
        #expect(field("X-Amz-Security-Token", fields) == "canary-session")
        #expect(field("Authorization", fields)?.contains("Credential=ASIAPRINTED/") == true)
    }

    @Test func sessionTokenAndExpirationAreOptional() throws {
        let token = try token(printed("")).get()
        #expect(token.expiresAt == nil)
        #expect(try field("X-Amz-Security-Token", fields(signedWith: token, of: process())) == nil)
    }

    @Test(arguments: [
        ("[]", "not a JSON object"), ("{}", "Version is not 1"),
        (printed().replacing(#""Version": 1"#, with: #""Version": 2"#), "Version is not 1"),
        (printed().replacing("ASIAPRINTED", with: "A/B"), "AccessKeyId"),
        (printed().replacing("canary-key", with: ""), "SecretAccessKey"),
        (printed(#", "SessionToken": "a\nb""#), "SessionToken"),
        (printed(#", "SessionToken": "a", "Expiration": "tomorrow""#), "Expiration"),
        (printed(#", "SessionToken": "a", "Expiration": "2026-03-01T10:00:00""#), "Expiration"),
    ])
    func otherOutputIsRefused(_ output: String, _ reason: String) throws {
        let failure = try #require(token(output).failure)
        #expect(failure.mayPass)
        #expect(failure.problem.detail.hasPrefix("print-keys printed no usable keys: "))
        #expect(failure.problem.detail.contains(reason))
        #expect(!failure.problem.detail.contains("canary"))
    }
}

@Suite("AWS: where keys come from", .timeLimit(.minutes(5)))
struct AWSKeySourceTests {
    private static let role: Entries = [("region", "eu-central-1")]
    private static let web: (String, FixtureNode) = ("web_identity", ["file": "/run/token"])

    private static let wrong: [(FixtureNode, String)] = [
        (.mapping([]), #"missing key "access_key_id""#),
        (block(key + [web], role: role), "cannot be combined with web_identity"),
        (block([web, ("parent", "base")], role: role), "cannot be combined with parent"),
        (block([web], role: nil), #"missing key "assume_role""#),
        (.mapping([("parent", "base")]), #"missing key "assume_role""#),
        (block([("credential_process", ["print-keys"])], role: role), "cannot be combined with credential_process"),
        (block(key), #"missing key "region""#),
        (block(key + [("region", ["eu-central-1", "us-east-1"])]), #"missing key "region""#),
        (block(key, role: role + [("role_arn", "reader")]), "expected the ARN of a role"),
        (
            block(key, role: role + [("role_arn", "arn:aws:iam::123456789012:user/reader")]),
            "expected the ARN of a role"
        ),
        (
            block(key, role: role + [("role_arn", "arn:aws-other:iam::123456789012:role/a")]),
            #"missing key "token_url""#
        ),
        (block(key, role: role + [("session_name", "a")]), "expected 2 to 64"),
        (block(key, role: role + [("session_name", "a b")]), "expected 2 to 64"),
        (block(key, role: role + [("external_id", "a b")]), "expected 2 to 1224"),
        (block(key, role: role + [("duration", "10m")]), "duration"),
        (block(key, role: role + [("duration", "13h")]), "duration"),
        (block(key, role: [("region", "eu central")]), "expected a region"),
        (block(key, role: role + [("token_url", "https://sts.us-west-2.amazonaws.com")]), "is in the region us-west-2"),
        (block(key, role: role + [("token_url", "https://sts.example.com/?a=b")]), "must not have a query"),
        (block(key, role: role + [("policy", "{}")]), "unknown key"),
    ]

    @Test(arguments: wrong.indices) func mistakesAreTold(_ index: Int) throws {
        let (block, expected) = Self.wrong[index]
        let problems = try problems("aws_sigv4", block)
        #expect(problems.contains { $0.contains(expected) }, "\(problems)")
        #expect(!problems.contains { $0.contains("canary") })
    }

    @Test func theRegionMayStandInTheURL() throws {
        let role: Entries = [("token_url", "https://sts.us-gov-west-1.amazonaws.com")]
        let grant = try grant("aws_sigv4", block(key, role: role))
        let request = try request(of: grant.firstStep(holding: nil, at: now))
        #expect(field("Authorization", request.fields)?.contains("/us-gov-west-1/sts/") == true)
    }
}
