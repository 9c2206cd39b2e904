import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayProxy

@Suite("Questions of Envoy by gRPC", .timeLimit(.minutes(5)))
struct CheckTests {
    typealias Fault = OriginalRequest.Fault

    private struct Question {
        var texts: [(number: Int, text: String)] = [
            (2, "PUT"), (4, "/box/2.0?a=b"), (5, "api.example"), (6, "https"), (10, "HTTP/2"), (11, "body"),
        ]
        var headers: [(name: String, value: String)] = [
            (":method", "DELETE"), ("accept", "*/*"), ("authorization", "Bearer of-client"),
            ("x-gw-rejected-generation", "1.0"), ("content-length", "4"), ("host", "evil.example"),
        ]
        var raw: [(name: String, value: String)] = []

        var bytes: [UInt8] {
            var check = ProtobufWriter()
            check.add(1) { attributes in
                attributes.add(1) { $0.add(2, "a peer") }
                attributes.add(4) { request in
                    request.add(1) { $0.add(1, 1_700_000_000) }
                    request.add(2) { http in
                        for text in texts { http.add(text.number, text.text) }
                        for header in headers {
                            http.add(3) { entry in
                                entry.add(1, header.name)
                                entry.add(2, header.value)
                            }
                        }
                        guard !raw.isEmpty else { return }
                        http.add(13) { map in
                            for header in raw {
                                map.add(1) { entry in
                                    entry.add(1, header.name)
                                    entry.add(3, header.value)
                                }
                            }
                        }
                        http.add(9, UInt64(bitPattern: -1))
                    }
                }
                attributes.add(10) { entry in
                    entry.add(1, "key")
                    entry.add(2, "value")
                }
            }
            return check.bytes
        }
    }

    private static func read(_ bytes: [UInt8]) throws -> (text: String, scheme: Origin.Scheme?) {
        var original = OriginalRequest(EnginePlan(name: "edge", contract: .envoy))
        try original.read(check: bytes.span, bytes.indices)
        return (String(decoding: original.bytes, as: UTF8.self), original.scheme)
    }

    @Test func aHeaderNamesTheRouteThatEnvoyHasChosen() throws {
        var question = Question()
        question.headers.append(("x-gw-route", "box"))
        var original = OriginalRequest(EnginePlan(name: "edge", contract: .envoy))
        let bytes = question.bytes
        try original.read(check: bytes.span, bytes.indices)
        #expect(original.route == Array("box".utf8))
        #expect(!String(decoding: original.bytes, as: UTF8.self).contains("x-gw-route"))
        question.headers.append(("x-gw-route", "other"))
        #expect(throws: Fault.duplicate("X-Gw-Route")) { try Self.read(question.bytes) }
    }

    @Test func theMessageNamesTheRequest() throws {
        let (text, scheme) = try Self.read(Question().bytes)
        let expected =
            "PUT /box/2.0?a=b HTTP/1.1\r\nHost: api.example\r\naccept: */*\r\nauthorization: Bearer of-client\r\n\r\n"
        #expect(text == expected)
        #expect(scheme == .https)
    }

    @Test func headersMayBeRaw() throws {
        var question = Question()
        question.headers = []
        question.raw = [("accept", "a"), ("accept", "b"), (":path", "/other")]
        #expect(try Self.read(question.bytes).text.hasSuffix("\r\naccept: a\r\naccept: b\r\n\r\n"))
    }

    @Test(arguments: [(2, Fault.missing("method")), (4, .missing("path")), (5, .missing("host"))])
    func whatIsMissingOrThereTwiceIsNamed(_ number: Int, _ fault: Fault) {
        var question = Question()
        question.texts.removeAll { $0.number == number }
        #expect(throws: fault) { try Self.read(question.bytes) }
        question = Question()
        question.texts.append((number, "GET"))
        #expect {
            try Self.read(question.bytes)
        } throws: { error in
            if case .duplicate? = error as? Fault { true } else { false }
        }
    }

    @Test(arguments: [
        (2, "GET /evil"), (4, "box"), (4, "/a b"), (4, "/a\r\nx: y"), (5, "a\r\nx: y"), (6, "ftp"),
    ])
    func aValueThatWouldWriteAnotherHeadIsRefused(_ number: Int, _ text: String) {
        var question = Question()
        question.texts.removeAll { $0.number == number }
        question.texts.append((number, text))
        #expect {
            try Self.read(question.bytes)
        } throws: { error in
            if case .malformed? = error as? Fault { true } else { false }
        }
    }

    @Test(arguments: [("accept", "a\r\nx: y"), ("acc ept", "a"), ("accept", "a\u{0}"), ("a:b", "c")])
    func aHeaderThatIsNoneIsRefused(_ name: String, _ value: String) {
        var question = Question()
        question.headers.append((name, value))
        #expect(throws: Fault.malformed("headers")) { try Self.read(question.bytes) }
    }

    /// None is read beyond its end, and none traps.
    @Test func bytesOfAnyKindAreReadOrRefused() throws {
        let whole = Question().bytes
        for count in 0..<whole.count { #expect(throws: Fault.self) { try Self.read(Array(whole.prefix(count))) } }
        var numbers = SplitMix(seed: 84)
        for _ in 0..<20_000 {
            var bytes = whole
            for _ in 0...Int(numbers.next() % 4) {
                bytes[Int(numbers.next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: numbers.next())
            }
            guard let text = try? Self.read(bytes).text else { continue }
            var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
            let head = Array(text.utf8)
            guard case .head = decoder.decode(head.span) else { continue }
            let end = decoder.head.end
            #expect(end == head.count, "nothing stands behind the head")
        }
    }

    // MARK: Frames

    @Test func aCallHasOneMessageWithoutCompression() {
        func message(_ bytes: [UInt8]) -> Range<Int>? { CheckResponse.message(in: bytes.span) }
        #expect(message([0, 0, 0, 0, 2, 7, 7]) == 5..<7)
        #expect(message([0, 0, 0, 0, 0]) == 5..<5)
        for bytes: [UInt8] in [[], [0, 0, 0, 0], [1, 0, 0, 0, 1, 7], [0, 0, 0, 0, 2, 7], [0, 0, 0, 0, 1, 7, 7]] {
            #expect(message(bytes) == nil)
        }
    }

    // MARK: Answers

    /// The fields of a message as `number: bytes`.
    private static func fields(_ bytes: [UInt8]) throws -> [(number: Int, bytes: [UInt8])] {
        var reader = ProtobufReader(bytes.indices)
        var fields: [(Int, [UInt8])] = []
        while let field = try reader.next(in: bytes.span) {
            switch field.value {
            case .bytes(let range): fields.append((field.number, Array(bytes[range])))
            case .number(let number): fields.append((field.number, Array(String(number).utf8)))
            case .fixed: fields.append((field.number, []))
            }
        }
        return fields
    }

    private static func body(_ framed: [UInt8]) throws -> [UInt8] {
        let range = CheckResponse.message(in: framed.span)
        return Array(framed[try #require(range)])
    }

    @Test func theCredentialTakesThePlaceOfTheClientsFields() throws {
        let field = Injection.Field(name: "Authorization", value: Secret("Bearer token"))
        let framed = CheckResponse.ok([field], removing: ["x-debug"]).withValue { $0 }
        let response = try Self.fields(try Self.body(framed))
        #expect(response.map(\.number) == [1, 3])
        #expect(response[0].bytes.isEmpty, "the code 0 is the default")
        let ok = try Self.fields(response[1].bytes)
        #expect(ok.map(\.number) == [2, 5])
        #expect(ok[1].bytes == Array("x-debug".utf8))
        let option = try Self.fields(ok[0].bytes)
        #expect(option.map(\.number) == [1, 3])
        #expect(option[1].bytes == Array("2".utf8))
        let header = try Self.fields(option[0].bytes).map { String(decoding: $0.bytes, as: UTF8.self) }
        #expect(header == ["authorization", "Bearer token"])
    }

    @Test func aRefusalHasStatusFieldsAndDocument() throws {
        let problem = GatewayProblem(.routeForbidden, "No.")
        let answer = ProblemAnswer(problem, requestID: "1", disclosesNames: true, sendsProxyStatus: false)
        let response = try Self.fields(try Self.body(CheckResponse.denied(answer, problem.kind)))
        #expect(response.map(\.number) == [1, 2])
        #expect(try Self.fields(response[0].bytes).map(\.bytes) == [Array("7".utf8)])
        let denied = try Self.fields(response[1].bytes)
        #expect(try Self.fields(denied[0].bytes).map(\.bytes) == [Array("403".utf8)])
        let texts = denied.map { String(decoding: $0.bytes, as: UTF8.self) }
        let (body, fields) = (texts.last ?? "", texts.dropLast())
        #expect(body.contains("route-forbidden"))
        #expect(fields.allSatisfy { !$0.contains("content-length") })
    }

    // MARK: Encoding

    @Test(
        arguments: [
            [0x08], [0x0A, 0x05, 0x01], [0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],
            [0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], [0x0B], [0x0C], [0x00], [0x02, 0x00],
            [0x09, 1, 2, 3],
            [0x0D, 1, 2, 3], [0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02],
        ] as [[UInt8]]
    )
    func whatIsNoMessageIsMalformed(_ bytes: [UInt8]) {
        #expect(throws: ProtobufReader.Malformed.self) { try Self.fields(bytes) }
    }

    @Test func numbersHaveUpToTenBytes() throws {
        for number: UInt64 in [0, 1, 127, 128, 300, 1 << 32, .max] {
            var writer = ProtobufWriter()
            writer.add(536_870_911, number)
            let fields = try Self.fields(writer.bytes)
            #expect(fields.map(\.number) == [536_870_911])
            #expect(fields[0].bytes == Array(String(number).utf8))
        }
    }
}
