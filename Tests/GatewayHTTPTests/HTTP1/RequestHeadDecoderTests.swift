import GatewayTesting
import Testing

@testable import GatewayHTTP

@Suite(.timeLimit(.minutes(5)))
struct RequestHeadDecoderTests {
    struct Decoded: ~Copyable {
        let decoder: RequestHeadDecoder
        let outcome: Outcome
    }

    private func decode(_ text: String, maxBytes: Int = 4096, maxFields: Int = 20) -> Decoded {
        var decoder = RequestHeadDecoder(maxBytes: maxBytes, maxFields: maxFields)
        let outcome = Outcome(decoder.decode(Array(text.utf8).span))
        return Decoded(decoder: decoder, outcome: outcome)
    }

    enum Outcome: Equatable {
        case needMore
        case head
        case refused(HeadRefusal)

        init(_ result: RequestHeadDecoder.DecodeResult) {
            switch result {
            case .needMore: self = .needMore
            case .head: self = .head
            case .refused(let reason): self = .refused(reason)
            }
        }
    }

    struct Refused: CustomTestStringConvertible {
        let head: String
        let reason: HeadRefusal
        var testDescription: String { "\(head.debugDescription): \(reason.rawValue)" }
    }

    /// Some clients leave the port out of Host, and HTTP/1.0 has none.
    @Test(arguments: [
        "CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n",
        "CONNECT api.example:443 HTTP/1.1\r\nHost: API.example\r\n\r\n",
        "CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\nContent-Length: 0\r\n\r\n",
        "CONNECT api.example:443 HTTP/1.0\r\n\r\n", "CONNECT [::1]:8443 HTTP/1.1\r\nHost: [::1]:8443\r\n\r\n",
    ])
    func connectNamesAHostAndAPort(_ text: String) {
        let decoded = decode(text)
        #expect(decoded.outcome == .head)
        let isAuthority = decoded.decoder.head.form == .authority
        #expect(isAuthority)
        let target = text.split(separator: " ")[1]
        #expect(decoded.decoder.head.targetAuthority.count == target.utf8.count)
    }

    @Test(
        "a head that two readers could read differently is refused",
        arguments: [
            Refused(head: "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", reason: .malformedRequestLine),
            Refused(head: "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", reason: .malformedRequestLine),
            Refused(head: "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", reason: .malformedRequestLine),
            Refused(head: "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", reason: .malformedRequestLine),
            Refused(head: "GET / http/1.1\r\nHost: a\r\n\r\n", reason: .malformedRequestLine),
            Refused(head: "GET / HTTP/1.2\r\nHost: a\r\n\r\n", reason: .versionNotSupported),
            Refused(head: "GET / HTTP/0.9\r\nHost: a\r\n\r\n", reason: .versionNotSupported),
            Refused(head: "GET\r\n\r\n", reason: .malformedRequestLine),
            Refused(head: "G(T / HTTP/1.1\r\nHost: a\r\n\r\n", reason: .malformedRequestLine),
            Refused(head: "\u{16}\u{3}\u{1}\u{2}", reason: .tlsHello),
            Refused(head: "PRI * HTTP/1.1\r\nHost: a\r\n\r\n", reason: .methodRefused),
            Refused(head: "CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", reason: .invalidTarget),
            Refused(head: "CONNECT a: HTTP/1.1\r\nHost: a:\r\n\r\n", reason: .invalidTarget),
            Refused(head: "GET http://|/ HTTP/1.1\r\nHost: a\r\n\r\n", reason: .invalidTarget),
            Refused(head: "GET http://|/ HTTP/1.0\r\n\r\n", reason: .invalidTarget),
            Refused(head: "GET http://a%41/ HTTP/1.0\r\n\r\n", reason: .invalidTarget),
            Refused(head: "CONNECT a:0 HTTP/1.1\r\nHost: a:0\r\n\r\n", reason: .invalidTarget),
            Refused(head: "CONNECT a:65536 HTTP/1.1\r\nHost: a:65536\r\n\r\n", reason: .invalidTarget),
            Refused(head: "CONNECT :443 HTTP/1.1\r\nHost: :443\r\n\r\n", reason: .invalidTarget),
            Refused(head: "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", reason: .invalidTarget),
            Refused(head: "CONNECT https://a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", reason: .invalidTarget),
            Refused(head: "CONNECT u@a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", reason: .invalidTarget),
            Refused(head: "CONNECT a:443 HTTP/1.1\r\nHost: b:443\r\n\r\n", reason: .hostMismatch),
            Refused(head: "CONNECT a:443 HTTP/1.1\r\nHost: a:80\r\n\r\n", reason: .hostMismatch),
            Refused(
                head: "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nContent-Length: 1\r\n\r\n",
                reason: .connectWithContent
            ),
            Refused(head: "GET a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", reason: .invalidTarget),
            Refused(head: "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", reason: .methodRefused),
            Refused(head: "GET * HTTP/1.1\r\nHost: a\r\n\r\n", reason: .invalidTarget),
            Refused(head: "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", reason: .invalidTarget),
            Refused(head: "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", reason: .invalidTarget),
            Refused(head: "GET /#f HTTP/1.1\r\nHost: a\r\n\r\n", reason: .invalidTarget),
            Refused(head: "GET /\u{E9} HTTP/1.1\r\nHost: a\r\n\r\n", reason: .invalidTarget),
            Refused(head: "GET / HTTP/1.1\r\nHost: a\r\nX: a\nb\r\n\r\n", reason: .bareLineFeed),
            Refused(head: "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", reason: .bareLineFeed),
            Refused(head: "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", reason: .invalidFieldValue),
            Refused(head: "GET / HTTP/1.1\r\nHost: a\r\nX: a\u{7F}\r\n\r\n", reason: .invalidFieldValue),
            Refused(head: "GET / HTTP/1.1\r\nHost: a\r\nX y: a\r\n\r\n", reason: .invalidFieldName),
            Refused(head: "GET / HTTP/1.1\r\nHost: a\r\nX : a\r\n\r\n", reason: .invalidFieldName),
            Refused(head: "GET / HTTP/1.1\r\nHost: a\r\n: a\r\n\r\n", reason: .invalidFieldName),
            Refused(head: "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", reason: .invalidFieldName),
            Refused(head: "GET / HTTP/1.1\r\nHost: a\r\n\tX: a\r\n\r\n", reason: .foldedLine),
            Refused(head: "GET / HTTP/1.1\r\n\r\n", reason: .missingHost),
            Refused(head: "GET / HTTP/1.1\r\nHost:\r\n\r\n", reason: .invalidHost),
            Refused(head: "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", reason: .invalidHost),
            Refused(head: "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", reason: .invalidHost),
            Refused(head: "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", reason: .duplicateHost),
            Refused(head: "GET http://a/ HTTP/1.1\r\nHost: b c\r\n\r\n", reason: .invalidHost),
            Refused(head: "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", reason: .duplicateHost),
            Refused(head: "GET http://a/ HTTP/1.1\r\n\r\n", reason: .missingHost),
            Refused(head: "GET http://a,b/ HTTP/1.1\r\nHost: a\r\n\r\n", reason: .invalidTarget),
            Refused(head: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", reason: .invalidContentLength),
            Refused(head: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1,1\r\n\r\n", reason: .invalidContentLength),
            Refused(head: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", reason: .invalidContentLength),
            Refused(head: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", reason: .invalidContentLength),
            Refused(head: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\t\r\n\r\n", reason: .invalidContentLength),
            Refused(head: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\t1\r\n\r\n", reason: .invalidContentLength),
            Refused(
                head: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\tchunked\r\n\r\n",
                reason: .invalidTransferEncoding
            ),
            Refused(
                head: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1234567890123456789\r\n\r\n",
                reason: .invalidContentLength
            ),
            Refused(
                head: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
                reason: .duplicateContentLength
            ),
            Refused(
                head: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                reason: .conflictingFraming
            ),
            Refused(
                head: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                reason: .invalidTransferEncoding
            ),
            Refused(
                head: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \u{B}chunked\r\n\r\n",
                reason: .invalidFieldValue
            ),
            Refused(
                head: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                reason: .invalidTransferEncoding
            ),
            Refused(
                head: "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
                reason: .transferEncodingInHTTP10
            ),
            Refused(
                head: "POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
                reason: .framingLookAlike
            ),
            Refused(head: "POST / HTTP/1.1\r\nHost: a\r\nCONTENT_Length: 1\r\n\r\n", reason: .framingLookAlike),
            Refused(head: "GET / HTTP/1.1\r\nHost: a\r\nExpect: magic\r\n\r\n", reason: .invalidExpectation),
            Refused(
                head: "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, Content-Length\r\n\r\n",
                reason: .frameNominated
            ),
            Refused(
                head: "GET / HTTP/1.1\r\nHost: a\r\nConnection: Expect\r\nExpect: 100-continue\r\n\r\n",
                reason: .frameNominated
            ),
            Refused(
                head: "GET / HTTP/1.1\r\nHost: a\r\nConnection: \(String(repeating: "x,", count: 33))close\r\n\r\n",
                reason: .tooManyNominated
            ),
        ]
    )
    func ambiguousHeadsAreRefused(_ example: Refused) {
        #expect(decode(example.head).outcome == .refused(example.reason))
    }

    /// What looks like a usual method, by its length and its first letter, is told from it.
    @Test(arguments: [
        "GET", "PUT", "HEAD", "DELETE", "OPTIONS", "POST", "PATCH", "get", "Get", "GOT", "PAT", "HEAL", "POSH", "PULL",
        "DELETA", "DOOOOO", "OPTIONA", "GETS", "PROPFIND",
    ])
    func aUsualMethodIsToldFromOthers(_ method: String) {
        let text = "\(method) / HTTP/1.1\r\nHost: a\r\n\r\n"
        let bytes = Array(text.utf8)
        let decoded = decode(text)
        let usual = decoded.decoder.head.usualMethod(bytes.span)
        let name = decoded.decoder.head.methodName(bytes.span)
        #expect(decoded.outcome == .head && name == method)
        #expect(usual == UsualMethod.allCases.first { $0.name == method })
    }

    @Test func whatAHeadSaysIsRead() throws {
        let text =
            "POST /a/b?c=d HTTP/1.1\r\nHOST: Example.com:81\r\nContent-Length:  12 \r\nConnection: x-a , close\r\n"
            + "Expect: 100-Continue\r\nX_Y: z\r\n\r\nrest"
        let bytes = Array(text.utf8)
        let decoded = decode(text)
        #expect(decoded.outcome == .head)
        check(decoded.decoder.head, bytes)
    }

    private func check(_ head: borrowing RequestHead, _ bytes: [UInt8]) {
        let (keepsAlive, expectsContinue, hasUnderscore) =
            (head.clientKeepsAlive, head.expectsContinue, head.section.hasUnderscore)
        #expect(bytes.span.string(head.method) == "POST")
        #expect(bytes.span.string(head.path) == "/a/b")
        #expect(bytes.span.string(head.query) == "?c=d")
        #expect(bytes.span.string(head.host) == "Example.com:81")
        #expect(head.framing == .length(12))
        #expect(!keepsAlive)
        #expect(head.options.nominated == [Array("x-a".utf8)])
        #expect(expectsContinue && hasUnderscore)
        #expect(bytes[head.end...].elementsEqual("rest".utf8))
    }

    @Test(arguments: [(0, true), (1, false)])
    func theNumberOfFieldsThatConnectionNamesIsLimited(_ more: Int, _ isTaken: Bool) {
        let names = (0..<ConnectionOptions.maximumNominated + more).map { "x-\($0)" }.joined(separator: ", ")
        let decoded = decode("GET / HTTP/1.1\r\nHost: a\r\nConnection: \(names)\r\n\r\n")
        #expect((decoded.outcome == .head) == isTaken)
    }

    /// Whatever `Host` says (RFC 9112 section 3.2.2).
    @Test(arguments: ["a.EXAMPLE", "b.example:8080", "A.example:80", ""])
    func theAbsoluteFormNamesItsHost(_ host: String) {
        let text = "GET HTTP://A.example HTTP/1.1\r\nHost: \(host)\r\n\r\n"
        let decoded = decode(text)
        #expect(decoded.outcome == .head)
        #expect(decoded.decoder.head.form == .absolute)
        #expect(Array(text.utf8).span.string(decoded.decoder.head.targetAuthority) == "A.example")
        #expect(Array(text.utf8).span.string(decoded.decoder.head.host) == "A.example")
        let path = decoded.decoder.head.path
        #expect(path.isEmpty)
    }

    @Test func limitsAreLimits() {
        #expect(decode("GET /\(String(repeating: "a", count: 100))", maxBytes: 64).outcome == .refused(.targetTooLong))
        let fields = (0..<4).map { "X\($0): y\r\n" }.joined()
        #expect(decode("GET / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n", maxFields: 4).outcome == .refused(.tooManyFields))
        let long = "GET / HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "a", count: 100))"
        #expect(decode(long, maxBytes: 64).outcome == .refused(.headTooLarge))
        #expect(decode(long + "\r\n\r\n", maxBytes: 64).outcome == .refused(.headTooLarge))
    }

    @Test(arguments: [(31, true), (32, true), (33, false)])
    func theLongestMethodIsTheSameHoweverItArrives(_ length: Int, _ isAccepted: Bool) {
        let text = Array("\(String(repeating: "M", count: length)) / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        for step in [1, text.count] {
            var decoder = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
            var outcome = Outcome.needMore
            for end in stride(from: step, through: text.count, by: step) where outcome == .needMore {
                outcome = Outcome(decoder.decode(Array(text[..<end]).span))
            }
            #expect(outcome == (isAccepted ? .head : .refused(.malformedRequestLine)))
        }
    }

    @Test func itMakesNoDifferenceHowTheBytesArrive() {
        let text = "GET /a HTTP/1.1\r\nHost: a\r\nX: \t y \r\n\r\n"
        let bytes = Array(text.utf8)
        var whole = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
        _ = whole.decode(bytes.span)
        var dribbled = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
        for count in 1..<bytes.count {
            #expect(Outcome(dribbled.decode(Array(bytes.prefix(count)).span)) == .needMore)
        }
        #expect(Outcome(dribbled.decode(bytes.span)) == .head)
        let (fields, path) = (dribbled.head.fields, dribbled.head.path)
        #expect(fields == whole.head.fields)
        #expect(path == whole.head.path)
    }

    /// What was looked at could be anything by now: nobody looks again.
    @Test func whatWasSeenIsNotSeenAgain() {
        let seen = "GET / HTTP/1.1\r\nHost: a\r\nX-Pad: aaaaaaaa\r\nX-Long: bbbbbbbb"
        var bytes = Array(seen.utf8)
        var decoder = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
        #expect(Outcome(decoder.decode(bytes.span)) == .needMore)
        for index in bytes.indices where [0x61, 0x62].contains(bytes[index]) && index > 30 { bytes[index] = 0 }
        bytes += Array("cc\r\n\r\n".utf8)
        #expect(Outcome(decoder.decode(bytes.span)) == .head)
        var anew = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
        #expect(Outcome(anew.decode(bytes.span)) == .refused(.invalidFieldValue))
    }

    @Test(
        arguments: [
            ("", []), ("Authorization: a\r\n", .authorization),
            ("Authorization: a\r\nAUTHORIZATION: b\r\n", [.authorization, .secondAuthorization]),
        ] as [(String, FieldPresence)]
    )
    func aSecondAuthorizationIsNoticed(_ fields: String, _ presence: FieldPresence) {
        let decoded = decode("GET / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n")
        let present = decoded.decoder.head.present
        #expect(present == presence)
    }

    /// A client that speaks 1.0 does not know what it says (RFC 9110 §10.1.1).
    @Test(arguments: [("1.1", true), ("1.0", false)])
    func anExpectationIsOfVersion11(_ version: String, _ expects: Bool) {
        let decoded = decode("POST / HTTP/\(version)\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
        let expected = decoded.decoder.head.expectsContinue
        #expect(decoded.outcome == .head)
        #expect(expected == expects)
    }

    @Test func noBytesTrapAndAcceptedHeadsAreWellFormed() {
        var random = SplitMix(seed: 20_260_301)
        let seeds = [
            "GET /a?b HTTP/1.1\r\nHost: a:1\r\nContent-Length: 5\r\n\r\n",
            "POST http://a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close, x\r\n\r\n",
            "OPTIONS * HTTP/1.0\r\nExpect: 100-continue\r\nUpgrade: x\r\n\r\n",
        ].map { Array($0.utf8) }
        for round in 0..<20_000 {
            var bytes = seeds[round % seeds.count]
            for _ in 0..<Int(random.next() % 4) {
                let index = Int(random.next() % UInt64(bytes.count))
                switch random.next() % 3 {
                case 0: bytes[index] = UInt8(truncatingIfNeeded: random.next())
                case 1: bytes.insert(UInt8(truncatingIfNeeded: random.next()), at: index)
                default: bytes.remove(at: index)
                }
            }
            var decoder = RequestHeadDecoder(maxBytes: 512, maxFields: 8)
            guard case .head = decoder.decode(bytes.span) else { continue }
            let head = bytes[..<decoder.head.end]
            #expect(head.suffix(4).elementsEqual([13, 10, 13, 10]))
            #expect(!head.contains(0))
            #expect(head.count { $0 == 10 } == head.count { $0 == 13 })
        }
    }

    @Test func noControlByteStandsAnywhereInAValue() {
        let head = Array("GET / HTTP/1.1\r\nHost: a\r\nX-Long: ".utf8)
        for length in 1...20 {
            for position in 0..<length {
                for byte in UInt8.min...UInt8.max {
                    var value = [UInt8](repeating: 0x76, count: length)
                    value[position] = byte
                    var decoder = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
                    let outcome = Outcome(decoder.decode((head + value + Array("\r\n\r\n".utf8)).span))
                    let isAllowed = byte == 0x09 || byte >= 0x20 && byte != 0x7F
                    #expect((outcome == .head) == isAllowed, "byte \(byte) at \(position) of \(length)")
                }
            }
        }
    }

    @Test func anEmptyLineIsNoBeginningAndForgivenOnce() {
        var decoder = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
        #expect(Outcome(decoder.decode(Array("\r".utf8).span)) == .needMore)
        var (taken, isWithin) = (decoder.takeEmptyLine(), decoder.isWithinHead)
        #expect(taken == 0 && !isWithin)
        #expect(Outcome(decoder.decode(Array("\r\n".utf8).span)) == .needMore)
        isWithin = decoder.isWithinHead
        taken = decoder.takeEmptyLine()
        #expect(taken == 2 && !isWithin)
        (taken, isWithin) = (decoder.takeEmptyLine(), decoder.isWithinHead)
        #expect(taken == 0 && !isWithin)
        #expect(Outcome(decoder.decode(Array("G".utf8).span)) == .needMore)
        (taken, isWithin) = (decoder.takeEmptyLine(), decoder.isWithinHead)
        #expect(taken == 0 && isWithin)
        #expect(Outcome(decoder.decode(Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8).span)) == .head)
    }

    @Test func aSecondEmptyLineIsRefused() {
        var decoder = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
        #expect(Outcome(decoder.decode(Array("\r\n".utf8).span)) == .needMore)
        let taken = decoder.takeEmptyLine()
        #expect(taken == 2)
        #expect(Outcome(decoder.decode(Array("\r\n".utf8).span)) == .refused(.malformedRequestLine))
    }

    @Test(arguments: [("HEAD", true), ("GET", false), ("head", false)])
    func aHeadThatIsRefusedIsKnownByItsMethod(_ method: String, _ isHead: Bool) {
        for rest in [
            "/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "/#a HTTP/1.1\r\nHost: a\r\n\r\n", "/ HTTP/2.0\r\n\r\n",
            "/\u{1}\r\n\r\n",
            "/" + String(repeating: "a", count: 5000),
        ] {
            let decoded = decode("\(method) \(rest)")
            let (outcome, asksForHead) = (decoded.outcome, decoded.decoder.head.isHead)
            #expect(outcome != .head && asksForHead == isHead)
        }
    }

    @Test func whatTheHeadBeforeAskedForSaysNothingOfTheNext() {
        var decoder = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
        #expect(Outcome(decoder.decode(Array("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".utf8).span)) == .head)
        decoder.reset()
        #expect(Outcome(decoder.decode(Array("GET  /\r\n".utf8).span)) == .refused(.malformedRequestLine))
        let isHead = decoder.head.isHead
        #expect(!isHead)
    }
}
