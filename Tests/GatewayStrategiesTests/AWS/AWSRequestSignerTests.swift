import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("AWS: what is signed, for whom and for how long", .timeLimit(.minutes(5)))
struct AWSRequestSignerTests {
    private static let time = UnixTime(rfc3339: "2026-03-01T09:30:00Z") ?? UnixTime(seconds: 0)
    private static let hash = "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"

    private func signer(_ more: KeyValuePairs<String, FixtureNode> = [:]) throws -> any RequestSigner {
        let keys: [(String, FixtureNode)] = [("access_key_id", "AKIDEXAMPLE"), ("secret_access_key", "canary-key")]
        let block = FixtureNode.mapping(keys + more.map { ($0.key, $0.value) })
        guard case .signed(.everyRequest(let signer)) = try decode("aws_sigv4", block).behavior else {
            throw WrongKind()
        }
        return signer
    }

    private func request(
        _ method: String = "GET",
        _ target: String = "/bucket/key",
        host: String = "s3.eu-central-1.amazonaws.com",
        isTLS: Bool = true,
        _ fields: [(String, String)] = [],
        dropped: [(String, String)] = [],
        hasBody: Bool = false
    ) -> SignableRequest {
        let parts = target.split(separator: "?", maxSplits: 1).map { Array($0.utf8) }
        return SignableRequest(
            method: method,
            path: parts[0],
            query: parts.count > 1 ? parts[1] : nil,
            isTLS: isTLS,
            host: host,
            fields: fields.map { .init(name: $0.0, value: Array($0.1.utf8), isForwarded: true) }
                + dropped.map { .init(name: $0.0, value: Array($0.1.utf8), isForwarded: false) },
            added: [],
            hasBody: hasBody,
            time: Self.time
        )
    }

    private func signature(_ request: SignableRequest, by signer: any RequestSigner, _ body: String = "") throws
        -> RequestSignature
    {
        try signer.plan(for: request).get().sign(at: Self.time, Array(body.utf8).span).get()
    }

    private func value(_ name: String, _ signature: RequestSignature) -> String? {
        signature.fields.first { $0.name == name }?.value.text
    }

    private func asked(_ region: String, _ service: String) -> [(String, String)] {
        let credential = "Credential=anything/20260301/\(region)/\(service)/aws4_request"
        return [("authorization", "AWS4-HMAC-SHA256 \(credential), SignedHeaders=host, Signature=00")]
    }

    private func refusal(_ request: SignableRequest, _ signer: any RequestSigner) -> GatewayProblem? {
        guard case .failure(let problem) = signer.plan(for: request) else { return nil }
        return problem
    }

    // MARK: Fields

    @Test func whatIsSentAndSigned() throws {
        let signer = try signer(["session_token": "canary-token"])
        let signature = try signature(
            request(
                "GET",
                "/bucket/key",
                [("accept", "*/*"), ("content-type", "text/plain"), ("x-amz-meta-a", "1"), ("x-amzn-trace-id", "t")],
                dropped: [("x-amz-date", "old"), ("x-amz-meta-b", "2")]
            ),
            by: signer
        )
        #expect(value("X-Amz-Date", signature) == "20260301T093000Z")
        #expect(value("X-Amz-Security-Token", signature) == "canary-token")
        #expect(value("X-Amz-Content-SHA256", signature) == SignatureV4.emptyHash)
        let authorization = try #require(value("Authorization", signature))
        let scope = "AKIDEXAMPLE/20260301/eu-central-1/s3/aws4_request"
        let names = "content-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-security-token"
        #expect(authorization.hasPrefix("AWS4-HMAC-SHA256 Credential=\(scope), SignedHeaders=\(names), Signature="))
        #expect(signature.query == nil)
        #expect(
            signer.ownedFields == [
                "Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-SHA256", "X-Amz-S3session-Token",
                "X-Amz-Region-Set",
            ]
        )
    }

    /// The request is read once, and each attempt has the date at which it is made.
    @Test func eachAttemptHasItsOwnDate() throws {
        let plan = try signer().plan(for: request()).get()
        let later = try plan.sign(at: Self.time + .seconds(60), [UInt8]().span).get()
        #expect(value("X-Amz-Date", later) == "20260301T093100Z")
        let first = try plan.sign(at: Self.time, [UInt8]().span).get()
        #expect(try value("Authorization", first) == value("Authorization", signature(request(), by: signer())))
        #expect(value("Authorization", first) != value("Authorization", later))
    }

    @Test func otherServicesGetNoHashUnlessTheClientSentOne() throws {
        let signer = try signer()
        let host = "dynamodb.eu-central-1.amazonaws.com"
        #expect(value("X-Amz-Content-SHA256", try signature(request(host: host), by: signer)) == nil)
        let declared = request(host: host, dropped: [("x-amz-content-sha256", Self.hash)])
        #expect(value("X-Amz-Content-SHA256", try signature(declared, by: signer)) == Self.hash)
    }

    // MARK: Region and service

    @Test(arguments: [
        ("s3.eu-central-1.amazonaws.com", [], "eu-central-1/s3"),
        ("localhost:5000", ["eu-west-1", "sqs"], "eu-west-1/sqs"),
        ("sts.amazonaws.com", [], "us-east-1/sts"),
        ("sts.amazonaws.com", ["eu-west-1", "sts"], "eu-west-1/sts"),
        ("own.s3-accelerate.amazonaws.com", ["eu-west-1", "s3"], "eu-west-1/s3"),
        ("own-1234.s3-accesspoint.eu-west-1.amazonaws.com", [], "eu-west-1/s3"),
        ("vpce-1a2b-3c.sqs.eu-west-1.vpce.amazonaws.com", [], "eu-west-1/sqs"),
        ("bedrock-runtime.us-west-2.amazonaws.com", ["us-west-2", "bedrock"], "us-west-2/bedrock"),
    ])
    func scopesOfHostsAndClients(_ host: String, _ scope: [String], _ expected: String) throws {
        let client = scope.isEmpty ? [] : asked(scope[0], scope[1])
        let signature = try signature(request(host: host, dropped: client), by: signer())
        #expect(value("Authorization", signature)?.contains("/20260301/\(expected)/aws4_request") == true)
    }

    @Test func aKeyOfTheConfigurationDecides() throws {
        let signer = try signer(["region": "eu-west-1", "service": "sqs"])
        let signature = try signature(request(host: "localhost:5000"), by: signer)
        #expect(value("Authorization", signature)?.contains("/eu-west-1/sqs/") == true)
    }

    @Test func oneOfAListIsForTheClientToChoose() throws {
        let signer = try signer(["region": ["eu-west-1", "eu-central-1"], "service": "s3"])
        let chosen = request(host: "localhost:5000", dropped: asked("eu-central-1", "s3"))
        #expect(value("Authorization", try signature(chosen, by: signer))?.contains("/eu-central-1/s3/") == true)
        #expect(refusal(request(host: "localhost:5000"), signer)?.kind == .requestRefused)
    }

    /// There us-east-1 is of no use.
    @Test(arguments: ["iam.amazonaws.com.cn", "iam.amazonaws.eu"])
    func aGlobalHostOfAnotherPartitionNamesNoRegion(_ host: String) throws {
        let problem = try #require(refusal(request(host: host), signer()))
        #expect(problem.kind == .requestRefused)
        #expect(problem.detail.contains("Set region in the credential"))
        let client = asked("cn-north-1", "iam")
        let signature = try signature(request(host: host, dropped: client), by: signer())
        #expect(value("Authorization", signature)?.contains("/cn-north-1/iam/") == true)
    }

    @Test(arguments: [
        ("s3.eu-central-1.amazonaws.com", "us-east-1", "s3"), ("s3.eu-central-1.amazonaws.com", "eu-central-1", "iam"),
        ("localhost:5000", "eu-central-1", "sqs"), ("localhost:5000", "us-east-1", "s3"),
    ])
    func aClientThatSignsForAnotherPlaceIsRefused(_ host: String, _ region: String, _ service: String) throws {
        let signer = try signer(
            host == "localhost:5000" ? ["region": ["eu-central-1"], "service": ["s3", "sts"]] : [:]
        )
        let problem = try #require(refusal(request(host: host, dropped: asked(region, service)), signer))
        #expect(problem.kind == .routeForbidden)
    }

    @Test func theHostAndTheKeyMustAgree() throws {
        let signer = try signer(["region": "us-east-1"])
        #expect(refusal(request(), signer)?.kind == .routeForbidden)
    }

    @Test(arguments: [
        "AWS4-ECDSA-P256-SHA256 Credential=a/20260301/s3/aws4_request, SignedHeaders=host, Signature=00",
        "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=a/b", "AWS4-HMAC-SHA256 Credential=a/1/r\r/s3/aws4_request",
        "AWS4-HMAC-SHA256 Credential=a/1//s3/aws4_request", "AWS4-HMAC-SHA256 Signature=00",
    ])
    func signaturesThatCannotBeReadAreRefused(_ value: String) throws {
        #expect(refusal(request(dropped: [("authorization", value)]), try signer())?.kind == .requestRefused)
    }

    @Test func twoSignaturesAreRefused() throws {
        let both = request(dropped: asked("eu-central-1", "s3") + asked("eu-central-1", "s3"))
        #expect(refusal(both, try signer())?.kind == .requestRefused)
    }

    @Test(arguments: [
        ("s3.eu-central-1.amazonaws.com", "other/a%20b?versionId=1", "/other/a%20b"),
        ("localhost:5000", "/other/a", "/other/a"),
        ("s3.amazonaws.com", "s3/a", "/s3/a"), ("own.s3.eu-central-1.amazonaws.com", "own/a/b", "/a/b"),
        ("own.part.s3.dualstack.eu-central-1.amazonaws.com:443", "/own.part/a", "/a"),
        ("own.s3-eu-west-1.amazonaws.com", "own/a", "/a"), ("own.s3.amazonaws.com", "other/a", nil),
        ("bucket.vpce-1a2b-3c.s3.eu-west-1.vpce.amazonaws.com", "other/a", "/other/a"),
        ("own.bucket.vpce-1a2b-3c.s3.eu-west-1.vpce.amazonaws.com", "own/a", "/a"),
        ("own.bucket.vpce-1a2b-3c.s3.eu-west-1.vpce.amazonaws.com", "other/a", nil),
        ("bucket.s3.eu-west-1.amazonaws.com", "other/a", nil),
        ("own.s3.amazonaws.com", "ow/n/a", nil), ("s3.amazonaws.com", "other%2Fa", nil), ("localhost", "", nil),
        ("localhost", "arn:aws:s3:eu-central-1:1:accesspoint/own/object/a", nil),
        ("localhost", "%61rn:aws:s3:eu-central-1:1:accesspoint/own/object/a", nil),
        ("localhost", "%2FARN%3Aaws:s3:eu-central-1:1:accesspoint/own/object/a", nil),
    ])
    func whatACopyReads(_ host: String, _ source: String, _ path: String?) throws {
        let signer = try signer()
        let copy = request("PUT", host: host, [("x-amz-copy-source", source)], dropped: [("x-amz-copy-source", "b/c")])
        #expect(signer.otherPaths(of: copy) == [path.map { Array($0.utf8) }])
        #expect(signer.otherPaths(of: request("PUT", host: host, [("x_amz_rename-source", source)])) == [nil])
        #expect(signer.otherPaths(of: request("PUT", host: host)).isEmpty)
    }

    @Test(arguments: [
        ("own/a", true), ("/own/a?versionId=1", true), ("other/a", false), ("own%2Fa", false), ("%6Fwn/a", false),
        ("own.part/a", false), ("arn:aws:s3:eu-central-1:1:accesspoint/own/object/a", false),
    ])
    func aHostWithABucketLeadsToNoOther(_ source: String, _ isAllowed: Bool) throws {
        for host in ["own.s3.eu-central-1.amazonaws.com", "own.s3.amazonaws.com", "own.s3-accelerate.amazonaws.com"] {
            for name in ["x-amz-copy-source", "x_amz_copy_source"] {
                let problem = refusal(request("PUT", "/a", host: host, [(name, source)]), try signer())
                #expect(problem?.kind == (isAllowed ? nil : .routeForbidden), "\(host) \(name)")
            }
        }
        // Its path names the bucket, and rules for paths limit it.
        #expect(refusal(request("PUT", "/bucket/a", [("x-amz-copy-source", source)]), try signer()) == nil)
    }

    // MARK: Bodies

    @Test func aDeclaredHashIsSignedWhileTheBodyArrives() throws {
        let upload = request(
            "PUT",
            isTLS: false,
            dropped: [("x-amz-content-sha256", Self.hash)],
            hasBody: true
        )
        let signer = try signer()
        #expect(try !signer.plan(for: upload).get().needsBody)
        #expect(value("X-Amz-Content-SHA256", try signature(upload, by: signer)) == Self.hash)
    }

    @Test(arguments: ["UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"])
    func whatIsNotSignedGoesOverTLSOnly(_ word: String) throws {
        let signer = try signer(["region": "eu-central-1", "service": "s3"])
        let fields = [("x-amz-content-sha256", word)]
        let overTLS = request("PUT", dropped: fields, hasBody: true)
        #expect(value("X-Amz-Content-SHA256", try signature(overTLS, by: signer)) == word)
        let inClear = request(
            "PUT",
            host: "localhost:5000",
            isTLS: false,
            dropped: fields,
            hasBody: true
        )
        #expect(refusal(inClear, signer)?.kind == .requestRefused)
    }

    @Test(
        arguments: ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"],
        [true, false]
    )
    func chunksAreSignedOneByOne(_ word: String, _ isTLS: Bool) throws {
        let signer = try signer(["region": "eu-central-1", "service": "s3"])
        let fields = [("x-amz-decoded-content-length", "0"), ("x-amz-trailer", "x-amz-checksum-crc32")]
        let dropped = [("x-amz-content-sha256", word)]
        let upload = request("PUT", isTLS: isTLS, fields, dropped: dropped, hasBody: true)
        #expect(try !signer.plan(for: upload).get().needsBody)
        let signature = try signature(upload, by: signer)
        #expect(value("X-Amz-Content-SHA256", signature) == word)
        #expect(value("Authorization", signature)?.contains(";x-amz-decoded-content-length;") == true)
        var body = try #require(signature.body)
        let unsigned = String(repeating: "0", count: 64)
        let tail = word.hasSuffix("TRAILER") ? "x-amz-trailer-signature:\(unsigned)\r\n\r\n" : "\r\n"
        let sent = Array("0;chunk-signature=\(unsigned)\r\n\(tail)".utf8)
        let signed = try body.sign(sent.span, isLast: true)
        #expect(signed.count == sent.count)
        #expect(!String(decoding: signed, as: UTF8.self).contains(unsigned))
    }

    @Test func otherBodiesAreForwardedAsTheyAre() throws {
        let upload = request("PUT", dropped: [("x-amz-content-sha256", Self.hash)], hasBody: true)
        #expect(try signature(upload, by: signer()).body == nil)
    }

    @Test(arguments: [[], ["x"], ["-1"], ["+1"], [""], ["99999999999999999999"], ["1", "1"]])
    func chunksNeedTheLengthOfTheirData(_ lengths: [String]) throws {
        let fields = lengths.map { ("x-amz-decoded-content-length", $0) }
        let dropped = [("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")]
        let upload = request("PUT", "/bucket/key", fields, dropped: dropped, hasBody: true)
        let problem = refusal(upload, try signer())
        #expect(problem?.kind == .requestRefused)
        #expect(problem?.detail.contains("x-amz-decoded-content-length") == true)
    }

    @Test func chunksNeedABody() throws {
        let fields = [("x-amz-decoded-content-length", "0")]
        let dropped = [("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")]
        #expect(refusal(request("PUT", "/bucket/key", fields, dropped: dropped), try signer())?.kind == .requestRefused)
    }

    @Test(arguments: ["STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-EVENTS", "x", ""])
    func otherPayloadsAreRefused(_ word: String) throws {
        let upload = request("PUT", dropped: [("x-amz-content-sha256", word)], hasBody: true)
        #expect(refusal(upload, try signer())?.kind == .requestRefused)
    }

    @Test func aBodyWithoutAHash() throws {
        let signer = try signer()
        let toS3 = request("PUT", hasBody: true)
        #expect(try !signer.plan(for: toS3).get().needsBody)
        #expect(value("X-Amz-Content-SHA256", try signature(toS3, by: signer)) == "UNSIGNED-PAYLOAD")
        #expect(try signer.plan(for: request("PUT", isTLS: false, hasBody: true)).get().needsBody)
        let host = "dynamodb.eu-central-1.amazonaws.com"
        #expect(try !signer.plan(for: request("POST", "/", host: host)).get().needsBody)
        let whole = request("POST", "/", host: host, hasBody: true)
        #expect(try signer.plan(for: whole).get().needsBody)
        #expect(
            try value("Authorization", signature(whole, by: signer, "one"))
                != value("Authorization", signature(whole, by: signer, "two"))
        )
    }

    // MARK: Presigned requests

    private func presigned(_ time: String, _ lifetime: String, _ rest: String = "") -> SignableRequest {
        let query =
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a%2F20260301%2Feu-central-1%2Fs3%2Faws4_request"
            + "&X-Amz-Date=\(time)&X-Amz-Expires=\(lifetime)&X-Amz-SignedHeaders=host&X-Amz-Signature=00"
        return request("GET", "/bucket/key?\(rest)\(query)")
    }

    @Test func theyBecomeOnesThatAreSignedInFields() throws {
        let signer = try signer()
        let alone = try signature(presigned("20260301T092900Z", "300"), by: signer)
        #expect(alone.query == [])
        #expect(value("Authorization", alone)?.contains("/eu-central-1/s3/") == true)
        let withOthers = try signature(
            presigned("20260301T092900Z", "300", "versionId=a%2Bb&x-id=GetObject&"),
            by: signer
        )
        #expect(withOthers.query == Array("versionId=a%2Bb&x-id=GetObject".utf8))
        #expect(value("Authorization", try signature(request(), by: signer)) == value("Authorization", alone))
    }

    @Test(arguments: [
        ("20260301T092459Z", "300", ProblemKind.routeForbidden), ("20260301T092500Z", "300", .routeForbidden),
        ("20260301T094501Z", "300", .routeForbidden), ("20260301T092900Z", "604801", .requestRefused),
        ("20260301T092900Z", "-1", .requestRefused), ("20260301T092900", "300", .requestRefused),
        ("2026030%0D%0AT09290Z", "300", .requestRefused), ("%C3%A4260301T092900Z", "300", .requestRefused),
    ])
    func expiredAndBrokenOnesAreRefused(_ time: String, _ lifetime: String, _ kind: ProblemKind) throws {
        #expect(refusal(presigned(time, lifetime), try signer())?.kind == kind)
    }

    /// Its request may wait for an approval or for a body.
    @Test func oneThatExpiresWhileItsRequestWaitsIsRefused() throws {
        let plan = try signer().plan(for: presigned("20260301T093000Z", "300")).get()
        _ = try plan.sign(at: Self.time + .seconds(299), [UInt8]().span).get()
        guard case .failure(let problem) = plan.sign(at: Self.time + .seconds(300), [UInt8]().span) else {
            Issue.record("signed")
            return
        }
        #expect(problem.kind == .routeForbidden)
    }

    /// An SDK whose session token is the client's token for the gateway signs URLs with it.
    @Test func theSessionTokenOfAClientIsNeverForwarded() throws {
        let signer = try signer(["session_token": "canary-token"])
        let token = "X-Amz-Security-Token=token-of-a-client"
        let presigned = try signature(presigned("20260301T092900Z", "300", "\(token)&versionId=1&"), by: signer)
        #expect(presigned.query == Array("versionId=1".utf8))
        for token in [token, "x%2Damz-security-token=a", "\(token)&\(token)", "X-Amz-Security-Token"] {
            let others = request("GET", "/bucket/key?versionId=1&\(token)&x-id=a")
            #expect(try signature(others, by: signer).query == Array("versionId=1&x-id=a".utf8))
            let alone = request("GET", "/bucket/key?\(token)", dropped: asked("eu-central-1", "s3"))
            #expect(try signature(alone, by: signer).query == [])
            #expect(
                try value("Authorization", signature(alone, by: signer))
                    == value("Authorization", signature(request(), by: signer))
            )
        }
        #expect(try signature(request("GET", "/bucket/key?versionId=1"), by: signer).query == nil)
    }

    /// Beside a signature in fields, a service might take them for a second one.
    @Test(arguments: [
        "X-Amz-Date=20200101T000000Z", "x-amz-expires=604800", "X-Amz-SignedHeaders=host;x-amz-security-token",
        "X%2DAmz%2DContent-Sha256=UNSIGNED-PAYLOAD", "X-Amz-Region-Set=*", "X-Amz-S3session-Token=t",
        "X-AMZ-SECURITY-TOKEN=a&X-Amz-Security-Token=b",
    ])
    func noParameterOfASignatureIsForwarded(_ parameters: String) throws {
        let signer = try signer()
        for client in [[], asked("eu-central-1", "s3")] {
            let sent = request("GET", "/bucket/key?a=1&\(parameters)&b=a+b;c", dropped: client)
            let signature = try signature(sent, by: signer)
            #expect(signature.query == Array("a=1&b=a+b;c".utf8))
            let plain = try self.signature(request("GET", "/bucket/key?a=1&b=a%20b%3Bc"), by: signer)
            #expect(value("Authorization", signature) == value("Authorization", plain))
            #expect(value("X-Amz-Date", signature) == "20260301T093000Z")
        }
    }

    @Test(arguments: [
        "X-Amz-Credential=a%2F20260301%2Feu-central-1%2Fs3%2Faws4_request", "X-Amz-Algorithm=AWS4-HMAC-SHA256",
        "X-Amz-Signature=00", "x-amz-signature",
    ])
    func aPartOfAPresignedURLIsRefused(_ parameters: String) throws {
        #expect(refusal(request("GET", "/bucket/key?\(parameters)"), try signer())?.kind == .requestRefused)
    }

    @Test func signaturesInQueryAndFieldsAreRefused() throws {
        let query = presigned("20260301T092900Z", "300").query.map { String(decoding: $0, as: UTF8.self) } ?? ""
        let both = request("GET", "/bucket/key?\(query)", dropped: asked("eu-central-1", "s3"))
        #expect(refusal(both, try signer())?.kind == .requestRefused)
    }

    @Test(arguments: [
        ("a=1;X-Amz-Security-Token=t", false), ("a;x%2Damz-date=20200101T000000Z;b", false),
        (";X-Amz-Expires=1", false), ("a=1;b=2", true),
        ("response-content-disposition=attachment;filename=X-Amz-Date", true),
    ])
    func aSemicolonHidesNoParameterOfASignature(_ query: String, _ isTaken: Bool) throws {
        let problem = refusal(request("GET", "/bucket/key?\(query)"), try signer())
        #expect(problem?.kind == (isTaken ? nil : .requestRefused))
    }

    @Test func aPresignedURLForAnotherPlaceIsRefused() throws {
        let url = presigned("20260301T092900Z", "300")
        #expect(refusal(url, try signer(["region": "us-east-1"]))?.kind == .routeForbidden)
        #expect(refusal(url, try signer(["service": ["sqs", "sts"]]))?.kind == .routeForbidden)
    }

    @Test func presignedURLsOfVersion2AreRefused() throws {
        let old = request("GET", "/bucket/key?AWSAccessKeyId=a&Signature=b&Expires=1772357400")
        #expect(refusal(old, try signer())?.kind == .requestRefused)
        #expect(refusal(request("GET", "/bucket/key?Signature=b"), try signer()) == nil)
    }

    @Test func aParameterOfTheSignatureThatComesTwiceIsRefused() throws {
        let twice = presigned("20260301T092900Z", "300", "x-amz-date=20260301T092900Z&")
        #expect(refusal(twice, try signer())?.kind == .requestRefused)
    }

    // MARK: Configuration

    @Test func mistakesAreNamed() throws {
        #expect(
            try problems("aws_sigv4", ["region": "eu central", "service": []])
                == [
                    "missing key \"access_key_id\"", "missing key \"secret_access_key\"",
                    "region: must be letters, digits, \"-\" or \"_\", such as \"eu-central-1\"",
                    "service: is empty; remove it",
                ]
        )
    }

    @Test func anotherKeyOrRegionIsAnotherCredential() throws {
        let signers = try [signer(), signer(["region": "eu-west-1"]), signer(["session_token": "t"])]
        #expect(Set(signers.map(\.identity)).count == 3)
        #expect(try signer().identity == signers[0].identity)
    }
}
