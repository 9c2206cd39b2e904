import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

/// Each expected signature is that of an example in the documentation of an API, or of a standard.
@Suite("HMAC signatures of documented examples", .timeLimit(.minutes(5)))
struct HMACExampleTests {
    /// https://www.bitmex.com/app/apiKeysUsage
    @Test(arguments: [
        (
            "GET", "/api/v1/instrument", nil, "", 1_518_064_236,
            "c7682d435d0cfe87c16098df34ef2eb5a549d4c5a3c2b1f0f77b8af73423bf00"
        ),
        (
            "GET", "/api/v1/instrument", "filter=%7B%22symbol%22%3A+%22XBTM15%22%7D", "", 1_518_064_237,
            "e2f422547eecb5b3cb29ade2127e21b858b235b386bfa45e1c1756eb3383919f"
        ),
        (
            "POST", "/api/v1/order", nil,
            #"{"symbol":"XBTM15","price":219.0,"clOrdID":"mm_bitmex_1a/oemUeQ4CAJZgP3fjHsA","orderQty":98}"#,
            1_518_064_238, "1749cd2ccae4aa49048ae09f0b95110cee706e0944e6a14ad0b3a8cb45bd336b"
        ),
    ])
    func bitMEX(
        _ method: String,
        _ path: String,
        _ query: String?,
        _ body: String,
        _ expires: Int64,
        _ signature: String
    ) throws {
        let signer = try hmacSigner([
            "key": "chNOOS4KvNXR_Xq4k4c9qsfoKWvnDecLATCRlcBwyKDYnWgO", "key_id": "LAqUlngMIQkIUjXMUreyu3qn",
            "message": "{{method}}{{target}}{{expires}}{{body}}", "lifetime": "30s",
            "apply": [
                ["header": "api-expires", "value": "{{expires}}"], ["header": "api-key", "value": "{{key_id}}"],
                ["header": "api-signature"],
            ],
        ])
        let request = Sample(method, path, query, body: body, at: (expires - 30) * 1000)
        #expect(
            try request.signed(by: signer) == [
                "api-expires: \(expires)", "api-key: LAqUlngMIQkIUjXMUreyu3qn", "api-signature: \(signature)",
            ]
        )
    }

    /// https://www.gate.com/docs/developers/apiv4/en/#api-signature-string-generation
    @Test(arguments: [
        (
            "GET", "contract=BTC_USD&status=finished&limit=50", "",
            "55f84ea195d6fe57ce62464daaa7c3c02fa9d1dde954e4c898289c9a2407a3d6"
                + "fb3faf24deff16790d726b66ac9f74526668b13bd01029199cc4fcc522418b8a"
        ),
        (
            "POST", nil,
            #"{"contract":"BTC_USD","type":"limit","size":100,"price":6800,"time_in_force":"gtc"}"#,
            "eae42da914a590ddf727473aff25fc87d50b64783941061f47a3fdb92742541f"
                + "c4c2c14017581b4199a1418d54471c269c03a38d788d802e2c306c37636389f0"
        ),
    ])
    func gate(_ method: String, _ query: String?, _ body: String, _ signature: String) throws {
        let signer = try hmacSigner([
            "algorithm": "sha512", "key": "secret", "key_id": "key",
            "message": "{{method}}\n{{path}}\n{{query}}\n{{body.sha512}}\n{{time}}",
            "apply": [
                ["header": "KEY", "value": "{{key_id}}"], ["header": "Timestamp", "value": "{{time}}"],
                ["header": "SIGN"],
            ],
        ])
        let request = Sample(method, "/api/v4/futures/orders", query, body: body, at: 1_541_993_715_000)
        #expect(
            try request.signed(by: signer) == ["KEY: key", "Timestamp: 1541993715", "SIGN: \(signature)"]
        )
    }

    /// https://duo.com/docs/adminapi#authentication
    @Test(arguments: [
        ("realname=First%20Last&username=root", nil), ("username=root&realname=First+Last", nil),
        ("username=root", "realname=First+%4Cast"), ("", "username=root&realname=First%20Last"),
    ])
    func duo(_ body: String, _ query: String?) throws {
        let signer = try hmacSigner([
            "algorithm": "sha1", "key": "Zh5eGmUq9zpfQnyUIu5OL9iWoMMv5ZNmk3zLJ4Ep",
            "message": "{{time.rfc2822}}\n{{method}}\n{{host}}\n{{path}}\n{{parameters}}",
            "apply": [["header": "Date", "value": "{{time.rfc2822}}"], ["basic": "DIWJ8X6AEYOR5OMC6TQ1"]],
        ])
        var request = Sample("POST", "/accounts/v1/account/list", query, body: body, at: 1_345_570_158_000)
        request.host = "api-xxxxxxxx.duosecurity.com"
        request.fields = [("content-type", "application/x-www-form-urlencoded; charset=utf-8")]
        #expect(
            try request.signed(by: signer) == [
                "Date: Tue, 21 Aug 2012 17:29:18 -0000",
                "Authorization: Basic "
                    + "RElXSjhYNkFFWU9SNU9NQzZUUTE6MmQ5N2Q2MTY2MzE5NzgxYjVhM2EwN2FmMzlkMzY2ZjQ5MTIzNGVkYw==",
            ]
        )
    }

    /// Signature version 5, with what the package duo_hmac 0.1.0 of Duo computes.
    @Test(arguments: [
        (
            "GET", "/admin/v1/users", "username=root&realname=First+Last", "",
            "ZmVmN2IzZGI0MTM2MDZjZDg4ZTkwM2FlMzAzZGY0NTA0MTIyYmY3MTQ3NGM2ZDUyYTQ1OTQzNzc1ZjNkYTU1Y2E3YzE0MTBl"
                + "M2ZkZTBiYTgxMTAxZTUxZDUzMzQwNTEzNjE4MTljMTVlZDQ1OGE2NzI4ZWZhNzVkODc2NzQ1ZDY="
        ),
        (
            "POST", "/accounts/v1/account/list", nil, #"{"realname":"First Last","username":"root"}"#,
            "M2Q5YmYzZTJjMDM1NDBjYWU1MmFhZmM1OTgzZTYyOThiNmViOTRiY2Q2MmE4NzUwMGIxZjI5NjcxMDg3MWQwNGRkNDM5ZTZh"
                + "ZmQ0YTRhMjZkYmJmMzdjMWZkZTliNjMxYTgzMDI4YmEzNDhmZDQxZWYyODk4OWI5MzlmZmZiOWI="
        ),
    ])
    func duoWithJSON(
        _ method: String,
        _ path: String,
        _ query: String?,
        _ body: String,
        _ password: String
    ) throws {
        let signer = try hmacSigner([
            "algorithm": "sha512", "key": "Zh5eGmUq9zpfQnyUIu5OL9iWoMMv5ZNmk3zLJ4Ep",
            "inner_message": "x-duo-date\0{{time.rfc2822}}",
            "message": """
            {{time.rfc2822}}
            {{method}}
            {{host}}
            {{path}}
            {{query.encoded}}
            {{body.sha512}}
            {{inner_message.sha512}}
            """,
            "apply": [["header": "X-Duo-Date", "value": "{{time.rfc2822}}"], ["basic": "DIWJ8X6AEYOR5OMC6TQ1"]],
        ])
        var request = Sample(method, path, query, body: body, at: 1_345_570_158_000)
        request.host = "api-xxxxxxxx.duosecurity.com"
        #expect(
            try request.signed(by: signer) == [
                "X-Duo-Date: Tue, 21 Aug 2012 17:29:18 -0000",
                "Authorization: Basic RElXSjhYNkFFWU9SNU9NQzZUUTE6\(password)",
            ]
        )
    }

    /// https://docs.kraken.com/api/docs/guides/spot-rest-auth
    @Test func kraken() throws {
        let signer = try hmacSigner([
            "algorithm": "sha512",
            "key": "kQH5HW/8p1uGOVjbgWA7FunAmGO8lsSUXNsu3eow76sz84Q18fWxnyRzBHCd3pd5nE9qa99HAZtuZuj6F1huXg==",
            "key_encoding": "base64", "key_id": "example", "inner_message": "{{parameter.nonce}}{{body}}",
            "message": "{{path}}{{inner_message.sha256.bytes}}", "encoding": "base64",
            "apply": [["header": "API-Key", "value": "{{key_id}}"], ["header": "API-Sign"]],
        ])
        let body = "nonce=1616492376594&ordertype=limit&pair=XBTUSD&price=37500&type=buy&volume=1.25"
        var request = Sample("POST", "/0/private/AddOrder", body: body, at: 0)
        request.fields = [("content-type", "application/x-www-form-urlencoded")]
        #expect(
            try request.signed(by: signer) == [
                "API-Key: example",
                "API-Sign: 4/dpxb3iT4tp/ZCVEwSnEsLxx0bqyhLpdfOpc6fn7OR8+UClSV5n9E6aSS8MPtnRfp32bAb0nmbRn6H8ndwLUQ==",
            ]
        )
    }

    /// https://www.tencentcloud.com/document/product/267/37447
    @Test func tencentCloud() throws {
        let signer = try hmacSigner([
            "key": "Gu5t9xGARNpq86cd98joQYCN3EXAMPLE", "key_prefix": "TC3",
            "key_chain": ["{{time.date}}", "cvm", "tc3_request"], "key_id": "AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE",
            "inner_message": """
            {{method}}
            {{path}}
            {{query}}
            content-type:{{header.content-type.lower}}
            host:{{host}}

            content-type;host
            {{body.sha256}}
            """,
            "message": """
            TC3-HMAC-SHA256
            {{time}}
            {{time.date}}/cvm/tc3_request
            {{inner_message.sha256}}
            """,
            "apply": [
                ["header": "X-TC-Timestamp", "value": "{{time}}"],
                [
                    "header": "Authorization", "scheme": "TC3-HMAC-SHA256",
                    "value":
                        "Credential={{key_id}}/{{time.date}}/cvm/tc3_request, SignedHeaders=content-type;host, Signature={{signature}}",
                ],
            ],
        ])
        let body = #"{"Limit": 1, "Filters": [{"Values": ["\u672a\u547d\u540d"], "Name": "instance-name"}]}"#
        var request = Sample("POST", "/", body: body, at: 1_551_113_065_000)
        request.host = "cvm.tencentcloudapi.com"
        request.fields = [("content-type", "application/json; charset=UTF-8")]
        #expect(
            try request.signed(by: signer) == [
                "X-TC-Timestamp: 1551113065",
                "Authorization: TC3-HMAC-SHA256 Credential=AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE/2019-02-25/cvm/tc3_request, "
                    + "SignedHeaders=content-type;host, "
                    + "Signature=72e494ea809ad7a8c8f7a4507b9bddcbaa8e581f516e8da2f66e2c5a96525168",
            ]
        )
    }

    /// https://www.alibabacloud.com/help/en/sdk/product-overview/v3-request-structure-and-signature
    @Test func alibabaCloud() throws {
        let names = "host;x-acs-action;x-acs-content-sha256;x-acs-date;x-acs-signature-nonce;x-acs-version"
        let credential = "Credential={{key_id}},SignedHeaders=\(names),Signature={{signature}}"
        let canonical = """
            {{method}}
            {{path}}
            {{query.encoded}}
            host:{{host}}
            x-acs-action:{{header.x-acs-action}}
            x-acs-content-sha256:{{body.sha256}}
            x-acs-date:{{time.iso}}
            x-acs-signature-nonce:{{nonce}}
            x-acs-version:{{header.x-acs-version}}

            \(names)
            {{body.sha256}}
            """
        let signer = try hmacSigner([
            "key": "YourAccessKeySecret", "key_id": "YourAccessKeyId", "inner_message": "\(canonical)",
            "message": "ACS3-HMAC-SHA256\n{{inner_message.sha256}}",
            "apply": [
                ["header": "x-acs-content-sha256", "value": "{{body.sha256}}"],
                ["header": "x-acs-date", "value": "{{time.iso}}"],
                ["header": "x-acs-signature-nonce", "value": "{{nonce}}"],
                ["header": "Authorization", "scheme": "ACS3-HMAC-SHA256", "value": "\(credential)"],
            ],
        ])
        let query = "RegionId=cn-shanghai&ImageId=win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd"
        var request = Sample("POST", "/", query, at: 1_698_315_752_000)
        request.host = "ecs.cn-shanghai.aliyuncs.com"
        request.fields = [("x-acs-action", "RunInstances"), ("x-acs-version", "2014-05-26")]
        #expect(
            try request.signed(by: signer, nonce: "3156853299f313e23d1673dc12e1703d").last
                == "Authorization: ACS3-HMAC-SHA256 Credential=YourAccessKeyId,SignedHeaders=\(names),"
                + "Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"
        )
    }

    /// OAuth 1.0: RFC 5849 section 1.2, the request for a photo.
    @Test func oauth1() throws {
        let signer = try hmacSigner([
            "algorithm": "sha1", "key": "kd94hf93k423kf44&pfkkdhi9sl3r4s00", "key_id": "dpf43f3p2l4k3l03",
            "message": "{{method}}&http%3A%2F%2F{{host}}{{path.percent}}&{{parameters.percent}}", "encoding": "base64",
            "apply": [
                ["query": "oauth_consumer_key", "value": "{{key_id}}"],
                ["query": "oauth_token", "value": "nnch734d00sl2jdk"],
                ["query": "oauth_signature_method", "value": "HMAC-SHA1"],
                ["query": "oauth_timestamp", "value": "{{time}}"], ["query": "oauth_nonce", "value": "{{nonce}}"],
                ["query": "oauth_signature"],
            ],
        ])
        var request = Sample("GET", "/photos", "file=vacation.jpg&size=original", at: 137_131_202_000)
        request.host = "photos.example.net"
        #expect(
            try request.signed(by: signer, nonce: "chapoH") == [
                "?file=vacation.jpg&size=original&oauth_consumer_key=dpf43f3p2l4k3l03&oauth_token=nnch734d00sl2jdk"
                    + "&oauth_signature_method=HMAC-SHA1&oauth_timestamp=137131202&oauth_nonce=chapoH"
                    + "&oauth_signature=MdpQcU8iPSUjWoN%2FUDMsK2sui9I%3D"
            ]
        )
    }

    /// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, with the values of its libraries'
    /// tests.
    @Test func standardWebhooks() throws {
        let signer = try hmacSigner([
            "key": "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "key_encoding": "base64",
            "message": "{{header.webhook-id}}.{{time}}.{{body}}", "encoding": "base64",
            "apply": [
                ["header": "webhook-timestamp", "value": "{{time}}"],
                ["header": "webhook-signature", "value": "v1,{{signature}}"],
            ],
        ])
        var request = Sample("POST", "/hook", body: #"{"test": 2432232314}"#, at: 1_614_265_330_000)
        request.fields = [("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")]
        #expect(
            try request.signed(by: signer) == [
                "webhook-timestamp: 1614265330",
                "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ]
        )
    }

    /// https://pusher.com/docs/channels/library_auth_reference/rest-api/#worked-authentication-example
    @Test func pusher() throws {
        let signer = try hmacSigner([
            "key": "7ad3773142a6692b25b8", "key_id": "278d425bdf160c739803",
            "message": "{{method}}\n{{path}}\n{{query.sorted}}",
            "apply": [
                ["query": "body_md5", "value": "{{body.md5}}"], ["query": "auth_version", "value": "1.0"],
                ["query": "auth_key", "value": "{{key_id}}"], ["query": "auth_timestamp", "value": "{{time}}"],
                ["query": "auth_signature"],
            ],
        ])
        let body = #"{"name":"foo","channels":["project-3"],"data":"{\"some\":\"data\"}"}"#
        let request = Sample("POST", "/apps/3/events", body: body, at: 1_353_088_179_000)
        #expect(
            try request.signed(by: signer) == [
                "?body_md5=ec365a775a4cd0599faeb73354201b6f&auth_version=1.0&auth_key=278d425bdf160c739803"
                    + "&auth_timestamp=1353088179"
                    + "&auth_signature=da454824c97ba181a32ccc17a72625ba02771f50b50e1e7430e47a1f3f457e6c"
            ]
        )
    }

    /// https://developers.binance.com/docs/binance-spot-api-docs/rest-api/request-security
    @Test func binance() throws {
        let signer = try hmacSigner([
            "key": "NhqPtmdSJYdKjVHjA7PZj4Mge3R5YNiP1e3UZjInClVN65XAbvqqM6A7H5fATj0j", "key_id": "example",
            "message": "{{query}}{{body}}",
            "apply": [
                ["header": "X-MBX-APIKEY", "value": "{{key_id}}"], ["query": "timestamp", "value": "{{time.ms}}"],
                ["query": "signature"],
            ],
        ])
        let query = "symbol=LTCBTC&side=BUY&type=LIMIT&timeInForce=GTC&quantity=1&price=0.1&recvWindow=5000"
        let signature = "c8db56825ae71d6d79447849e617115f4a920fa2acdcab2b053c4b2838bd6b71"
        // What the client says in their place is not sent.
        for more in ["", "&timestamp=1&signature=2", "&sign%61ture=2", ";timestamp=1"] {
            let request = Sample("POST", "/api/v3/order", query + more, at: 1_499_827_319_559)
            #expect(
                try request.signed(by: signer) == [
                    "X-MBX-APIKEY: example", "?\(query)&timestamp=1499827319559&signature=\(signature)",
                ]
            )
        }
    }

    /// RFC 9421 appendix B.2.5.
    @Test func httpMessageSignatures() throws {
        let covered = #"("date" "@authority" "content-type");created={{time}};keyid="{{key_id}}""#
        let message = #"""
            "date": {{header.Date}}
            "@authority": {{host}}
            "content-type": {{header.Content-Type}}
            "@signature-params": \#(covered)
            """#
        let key = "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ=="
        let signer = try hmacSigner([
            "key": "\(key)", "key_encoding": "base64", "key_id": "test-shared-secret", "message": "\(message)",
            "encoding": "base64",
            "apply": [
                ["header": "Signature-Input", "value": "sig-b25=\(covered)"],
                ["header": "Signature", "value": "sig-b25=:{{signature}}:"],
            ],
        ])
        var request = Sample("POST", "/foo", "param=Value&Pet=dog", body: #"{"hello": "world"}"#, at: 1_618_884_473_000)
        request.fields = [("date", "Tue, 20 Apr 2021 02:07:55 GMT"), ("content-type", "application/json")]
        #expect(
            try request.signed(by: signer) == [
                #"Signature-Input: sig-b25=("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret""#,
                "Signature: sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:",
            ]
        )
    }

    /// RFC 4231 section 4.3 and RFC 2202 sections 2 and 3, test case 2.
    @Test(arguments: [
        ("md5", "750c783e6ab0b503eaa86e310a5db738"), ("sha1", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        ("sha256", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        (
            "sha384",
            "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649"
        ),
        (
            "sha512",
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
                + "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
        ),
    ])
    func algorithms(_ algorithm: String, _ code: String) throws {
        let signer = try hmacSigner([
            "algorithm": "\(algorithm)", "key": "4a656665", "key_encoding": "hex", "message": "{{body}}",
            "encoding": "hex_upper", "apply": ["header": "X-Signature"],
        ])
        let request = Sample("POST", "/", body: "what do ya want for nothing?", at: 0)
        #expect(try request.signed(by: signer) == ["X-Signature: \(code.uppercased())"])
    }
}

@Suite("HMAC signatures", .timeLimit(.minutes(5)))
struct HMACTests {
    private static let block: [(String, FixtureNode)] = [
        ("key", "k"), ("message", "{{method}} {{path}}"), ("apply", ["header": "X-Signature"]),
    ]

    private static func block(_ changes: [(String, FixtureNode?)]) -> FixtureNode {
        var entries = block
        for (key, value) in changes {
            entries.removeAll { $0.0 == key }
            if let value { entries.append((key, value)) }
        }
        return .mapping(entries)
    }

    /// What a message is for a request: it is sent as it is, as part of a value.
    private func message(_ template: String, of request: Sample) throws -> String {
        let message = try HMACSigner.Message(Template(template))
        let input = SigningInput(
            request: request.request,
            query: request.request.query ?? [],
            fields: [Injection.Field(name: "X-Ours", value: Secret("ours"))],
            body: Array(request.body.utf8),
            innerMessage: Array("body".utf8),
            nonce: "n",
            keyID: "id",
            lifetime: .seconds(90)
        )
        return String(decoding: message.bytes(for: input), as: UTF8.self)
    }

    @Test(arguments: [
        ("{{method}} {{method.lower}} {{host}}", "PATCH patch example.com"),
        ("{{target}} {{path}} {{query}}", "/a%2Fb?b=2&a=%20&b=1&a /a%2Fb b=2&a=%20&b=1&a"),
        ("{{query.sorted}}", "a&a=%20&b=1&b=2"), ("{{parameters}}", "a=&a=%20&b=1&b=2"),
        ("{{header.x-two}}|{{header.X-None}}|{{header.X-Ours}}|{{header.x-set}}|{{header.x-gone}}", "1, 2||ours|set|"),
        ("{{body}} {{body.md5}}", "body 841a2d689ad86bd1611447453c22c6fc"),
        ("{{body.sha1.base64}}", "Agg/RXngimEkJcDBoX7ket14O5Q="),
        ("{{time}} {{time.ms}} {{time.iso}} {{time.iso_ms}}", "1 1500 1970-01-01T00:00:01Z 1970-01-01T00:00:01.500Z"),
        ("{{time.http}} {{expires}}", "Thu, 01 Jan 1970 00:00:01 GMT 91"), ("{{nonce}} {{key_id}}", "n id"),
        ("{{expires.rfc2822}}", "Thu, 01 Jan 1970 00:01:31 -0000"), ("{{time.date}}", "1970-01-01"),
        ("{{path.percent}} {{query.encoded}}", "%2Fa%252Fb a=&a=%20&b=1&b=2"),
        ("{{parameters.percent}}", "a%3D%26a%3D%2520%26b%3D1%26b%3D2"),
        ("[{{parameter.b}}{{parameter.a}}{{parameter.c}}]", "[2 ]"), ("{{header.x-case.lower}}", "mixed \u{C4}"),
        ("{{inner_message.md5}}", "841a2d689ad86bd1611447453c22c6fc"),
        ("{{inner_message.sha1.base64}}", "Agg/RXngimEkJcDBoX7ket14O5Q="),
    ])
    func whatAMessageIsMadeOf(_ template: String, _ expected: String) throws {
        var request = Sample("PATCH", "/a%2Fb", "b=2&a=%20&b=1&a", body: "body", at: 1500)
        request.fields = [
            ("x-two", "1"), ("x-ours", "theirs"), ("x-two", "2"), ("x-set", "theirs"), ("x-case", "MiXed \u{C4}"),
        ]
        request.hidden = [("x-gone", "secret")]
        request.added = [Injection.Field(name: "X-Set", value: Secret("set"))]
        #expect(try message(template, of: request) == expected)
    }

    @Test func anEmptyRequestHasEmptyParts() throws {
        let request = Sample("GET", "/", at: 0)
        #expect(try message("[{{target}}{{query}}{{query.sorted}}{{parameters}}{{body}}]", of: request) == "[/]")
        #expect(
            try message("{{body.sha256}}", of: request)
                == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        )
    }

    @Test func aParameterIsOfTheQueryOrOfAForm() throws {
        var request = Sample("POST", "/", "a%62=1+2&ab=3", body: "ab=4&c=%7E", at: 0)
        #expect(try message("[{{parameter.ab}}][{{parameter.c}}]", of: request) == "[1 2][]")
        request.fields = [("content-type", "application/x-www-form-urlencoded")]
        #expect(try message("[{{parameter.ab}}][{{parameter.c}}]", of: request) == "[1 2][~]")
        #expect(try message("[{{query.encoded}}]", of: request) == "[ab=1%202&ab=3]", "without the form")
    }

    @Test func theBytesOfADigestCanBeSigned() throws {
        let signer = try hmacSigner(
            Self.block([("inner_message", "{{path}}"), ("message", "{{inner_message.sha256.bytes}}")])
        )
        // What Python's hmac and hashlib compute.
        #expect(
            try Sample("GET", "/a", at: 0).signed(by: signer)
                == ["X-Signature: b62af35237ace6db68d95b346806a105f1edd6838df5c4a4c511ac12c6e5e695"]
        )
    }

    @Test func parametersAreInOneEncoding() throws {
        let request = Sample("GET", "/", "b=%2f%7e+&a=%ff&&=&c%", at: 0)
        #expect(try message("{{parameters}}", of: request) == "=&a=%FF&b=%2F~%20&c%25=")
    }

    @Test func theBodyIsCollectedOnlyWhereItIsSigned() throws {
        let form = [("content-type", "Application/X-WWW-Form-Urlencoded")]
        func isCollected(_ message: String, _ fields: [(String, String)] = [], body: String = "b") throws -> Bool {
            var request = Sample("POST", "/", body: body, at: 0)
            request.fields = fields
            return try hmacSigner(Self.block([("message", "\(message)")])).plan(for: request.request).get().needsBody
        }
        #expect(try !isCollected("{{path}}"))
        #expect(try isCollected("{{body}}"))
        #expect(try isCollected("{{body.sha256.base64}}"))
        #expect(try !isCollected("{{body}}", body: ""))
        #expect(try !isCollected("{{parameters}}"))
        #expect(try isCollected("{{parameters}}", form))
        #expect(try !isCollected("{{query.sorted}}{{query.encoded}}", form))
        #expect(try !isCollected("{{parameter.a}}"))
        #expect(try isCollected("{{parameter.a}}", form))
        #expect(try isCollected("{{parameters.percent}}", form))
        for (inner, expected) in [("{{path}}", false), ("{{body.md5.bytes}}", true)] {
            let signer = try hmacSigner(
                Self.block([("inner_message", "\(inner)"), ("message", "{{inner_message.md5}}")])
            )
            #expect(try signer.plan(for: Sample("POST", "/", body: "b", at: 0).request).get().needsBody == expected)
        }
    }

    @Test func aDigestThatIsSentNeedsTheBodyToo() throws {
        let signer = try hmacSigner(
            Self.block([("apply", [["header": "Digest", "value": "{{body.sha256}}"], ["header": "X-Signature"]])])
        )
        #expect(try signer.plan(for: Sample("PUT", "/", body: "b", at: 0).request).get().needsBody)
        #expect(signer.ownedFields == ["Digest", "X-Signature"])
    }

    @Test func aFormOfTooManyParametersIsNotSigned() throws {
        let signer = try hmacSigner(Self.block([("message", "{{parameters}}")]))
        var request = Sample("POST", "/", body: String(repeating: "&", count: 10_000), at: 0)
        #expect(try request.signed(by: signer).isEmpty == false)
        request.fields = [("content-type", "application/x-www-form-urlencoded")]
        #expect(throws: GatewayProblem.self) { try request.signed(by: signer) }
    }

    @Test func eachRequestHasItsOwnNonce() throws {
        let signer = try hmacSigner(
            Self.block([
                ("message", "{{nonce}}"), ("apply", ["header": "X-Signature", "value": "{{nonce}} {{signature}}"]),
            ])
        )
        let plan = try signer.plan(for: Sample("GET", "/", at: 0).request).get()
        func fields() throws -> [String] {
            try plan.sign(at: UnixTime(seconds: 0), [UInt8]().span).get().fields.map(\.value.text)
        }
        #expect(try fields() != fields())
    }

    @Test func eachAttemptHasItsOwnDate() throws {
        let signer = try hmacSigner(
            Self.block([
                ("message", "{{time}}"), ("apply", ["header": "X-Signature", "value": "{{time}} {{signature}}"]),
            ])
        )
        let plan = try signer.plan(for: Sample("GET", "/", at: 0).request).get()
        let signed = try plan.sign(at: UnixTime(seconds: 7), [UInt8]().span).get().fields.map(\.value.text)
        #expect(try #require(signed.first).hasPrefix("7 "))
    }

    @Test func aParameterTakesThePlaceOfAllWithItsName() throws {
        let signer = try hmacSigner(Self.block([("key", "k"), ("apply", ["query": "si g"])]))
        for (query, kept) in [("si+g=1", ""), ("si%20g=1&a=1&si+g&b", "a=1&b&"), ("", ""), ("a;si+g=2;b", "a;b&")] {
            let sent = try #require(Sample("GET", "/", query, at: 0).signed(by: signer).first)
            #expect(sent.hasPrefix("?\(kept)si%20g="))
        }
    }

    @Test func theKeyLocksAndIsNotShown() throws {
        let strategy = try decode("hmac", Self.block([]))
        #expect(strategy.injectedSecret?.key == "key")
        #expect(strategy.injectedSecret?.secret.text == "k")
        guard case .signed(.everyRequest(let signer)) = strategy.behavior else { throw WrongKind() }
        #expect(signer.identity.secrets.map(\.text) == ["k"])
        #expect(!"\(signer)".contains("[107]"))
    }

    @Test(
        arguments: [
            ("algorithm", "sha512"), ("key", "x"), ("key_encoding", "hex"), ("message", "{{method}}"),
            ("encoding", "base64"), ("key_prefix", "x"), ("key_chain", ["a", "b"]), ("key_chain", ["{{time}}"]),
            ("apply", ["header": "X-Other"]), ("apply", ["header": "X-Signature", "value": "a{{signature}}"]),
        ] as [(String, FixtureNode)]
    )
    func anotherInputIsAnotherCredential(_ key: String, _ value: FixtureNode) throws {
        let base: [(String, FixtureNode?)] = [("key", "abcd")]
        let (one, other) = try (
            hmacSigner(Self.block(base)), hmacSigner(Self.block(base + [(key, key == "key" ? "abce" : value)]))
        )
        #expect(one.identity != other.identity)
    }

    @Test func mistakesAreNamed() throws {
        func problems(_ changes: [(String, FixtureNode?)]) throws -> [String] {
            try GatewayStrategiesTests.problems("hmac", Self.block(changes))
        }
        #expect(try problems([("key", nil)]) == ["missing key \"key\""])
        #expect(try problems([("message", nil)]) == ["missing key \"message\""])
        #expect(try problems([("apply", nil)]) == ["missing key \"apply\""])
        #expect(
            try problems([("key", "whsec_x"), ("key_encoding", "base64")])
                == ["key: is not base64 (key_encoding); leave out a prefix such as whsec_"]
        )
        #expect(
            try problems([("key", "abc"), ("key_encoding", "hex")])
                == ["key: is not hexadecimal (key_encoding); leave out a prefix such as whsec_"]
        )
        #expect(
            try problems([("message", "{{methd}}")]).first?.hasPrefix("message: nothing is named \"{{methd}}\"") == true
        )
        #expect(try problems([("message", "{{header.}}")]).count == 1)
        #expect(try problems([("message", "{{header.host}}")]) == ["message: contains {{header.host}}: use {{host}}"])
        #expect(
            try problems([("message", "{{header.Content-Length}}")]) == [
                "message: contains {{header.Content-Length}}: this field belongs to the connection and cannot be signed"
            ]
        )
        #expect(try problems([("apply", ["cookie": "a"])]).first?.contains("unknown key \"cookie\"") == true)
        #expect(
            try problems([("apply", ["header": "A", "query": "b"])])
                == ["apply: a signature is applied to exactly one of header, query and basic"]
        )
        #expect(
            try problems([("apply", ["header": "X-Time", "value": "{{time}}"])])
                == ["apply: the signature itself is not applied"]
        )
        #expect(
            try problems([("apply", [["query": "a"], ["query": "a"]])])
                == ["apply: the query parameter a is set twice"]
        )
        #expect(try problems([("apply", ["header": "A", "value": "{{signature}}{{path}}"])]).count == 1)
        #expect(
            try problems([("apply", ["header": "A", "value": " {{signature}}"])])
                == ["apply: each value must be visible ASCII without a space at either end"]
        )
        #expect(
            try problems([("lifetime", "5s")]) == ["lifetime: is not used: put {{expires}} into message or apply"]
        )
        #expect(try problems([("key_id", "a")]) == ["key_id: is not used: put {{key_id}} into message or apply"])
        #expect(try problems([("message", "{{key_id}}")]) == ["missing key \"key_id\""])
        #expect(try problems([("message", "{{inner_message.md5}}")]) == ["missing key \"inner_message\""])
        #expect(
            try problems([("inner_message", "{{path}}")])
                == ["inner_message: is not used: put its digest into message, such as {{inner_message.sha256}}"]
        )
        let digest: (String, FixtureNode?) = ("message", "{{inner_message.md5}}")
        #expect(
            try problems([digest, ("inner_message", "{{inner_message.md5}}")]).first?
                .hasPrefix("inner_message: nothing is named \"{{inner_message.md5}}\"") == true
        )
        #expect(
            try problems([digest, ("inner_message", "{{header.host.lower}}")])
                == ["inner_message: contains {{header.host.lower}}: use {{host}}"]
        )
        #expect(try problems([digest, ("inner_message", "{{key_id}}")]) == ["missing key \"key_id\""])
        #expect(
            try problems([("key_chain", [])]) == ["key_chain: is empty: name the strings to sign, or leave it out"]
        )
        #expect(
            try problems([("key_chain", ["{{body}}"])]).first?.hasPrefix("key_chain: nothing is named \"{{body}}\"")
                == true
        )
        #expect(
            try problems([("key", "ab"), ("key_prefix", "TC3"), ("key_encoding", "hex")])
                == ["key_prefix: cannot be combined with key_encoding: hex"]
        )
        #expect(
            try problems([("apply", ["header": "A", "value": "{{signature}}{{body.md5.bytes}}"])]).count == 1,
            "they do not fit into a header field"
        )
    }
}

private func hmacSigner(_ block: FixtureNode) throws -> HMACSigner {
    guard case .signed(.everyRequest(let signer)) = try decode("hmac", block).behavior else { throw WrongKind() }
    return try #require(signer as? HMACSigner)
}

/// A request to sign.
private struct Sample {
    let method: String
    let path: String
    let query: String?
    let body: String
    let milliseconds: Int64
    var host = "example.com"
    var fields: [(String, String)] = []
    /// Those that are not forwarded.
    var hidden: [(String, String)] = []
    var added: [Injection.Field] = []

    init(_ method: String, _ path: String, _ query: String? = nil, body: String = "", at milliseconds: Int64) {
        (self.method, self.path, self.query, self.body) = (method, path, query, body)
        self.milliseconds = milliseconds
    }

    var request: SignableRequest {
        let own = added.map { $0.name.lowercased() }
        return SignableRequest(
            method: method,
            path: Array(path.utf8),
            query: query.map { Array($0.utf8) },
            isTLS: true,
            host: host,
            fields: fields.map { .init(name: $0.0, value: Array($0.1.utf8), isForwarded: !own.contains($0.0)) }
                + hidden.map { .init(name: $0.0, value: Array($0.1.utf8), isForwarded: false) },
            added: added,
            hasBody: !body.isEmpty,
            time: UnixTime(milliseconds: milliseconds)
        )
    }

    /// The fields and the query that are sent.
    func signed(by signer: HMACSigner, nonce: String = "example") throws -> [String] {
        let signature = try signer.sign(request, Array(body.utf8).span, nonce: nonce).get()
        return signature.fields.map { "\($0.name): \($0.value.text)" }
            + (signature.query.map { ["?\(String(decoding: $0, as: UTF8.self))"] } ?? [])
    }
}
