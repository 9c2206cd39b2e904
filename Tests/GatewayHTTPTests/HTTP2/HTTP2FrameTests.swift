import GatewayTesting
import Testing

@testable import GatewayHTTP

@Suite("Frames of HTTP/2", .timeLimit(.minutes(1)))
struct HTTP2FrameTests {
    typealias Frame = HTTP2FrameReader.Frame

    /// A reader behind the preface and the first SETTINGS.
    private static func reader(maximumList: Int = 32_768) throws -> HTTP2FrameReader {
        var reader = HTTP2FrameReader(ofClient: true, maximumList: maximumList)
        let start = TestFrame.preface + TestFrame.settings()
        #expect(
            try reader.next(start.span, from: 0) == .frame(.settings(33..<33), type: 4, next: start.count)
        )
        return reader
    }

    private static func read(_ bytes: [UInt8]) throws -> Frame? {
        var reader = try reader()
        guard case .frame(let frame, _, let next) = try reader.next(bytes.span, from: 0) else { return nil }
        #expect(next == bytes.count)
        return frame
    }

    private static func fault(_ bytes: [UInt8]) throws -> HTTP2ErrorNumber? {
        var reader = try reader()
        do throws(HTTP2Fault) {
            var position = 0
            while case .frame(_, _, let next) = try reader.next(bytes.span, from: position) { position = next }
            return nil
        } catch {
            return error.code
        }
    }

    // MARK: What is read

    @Test func eachFrame() throws {
        let nine = HTTP2FrameHeader.size
        #expect(
            try Self.read(TestFrame.data(3, 5)) == .data(stream: 3, content: nine..<nine + 5, padding: 0, isLast: false)
        )
        #expect(
            try Self.read(TestFrame.frame(.data, 9, 3, [2, 7, 8, 0, 0]))
                == .data(stream: 3, content: nine + 1..<nine + 3, padding: 3, isLast: true)
        )
        #expect(
            try Self.read(TestFrame.headers(1)) == .fields(stream: 1, block: nine..<nine + 6, isLast: true)
        )
        // Padded and with a priority; the stream depends on itself, which RFC 9113 does not mind.
        #expect(
            try Self.read(TestFrame.frame(.headers, 0x2C, 1, [1] + TestFrame.word(1) + [9] + [0x82] + [0]))
                == .fields(stream: 1, block: nine + 6..<nine + 7, isLast: false)
        )
        #expect(try Self.read(TestFrame.frame(.priority, 0, 1, [0, 0, 0, 1, 5])) == .ignored)
        #expect(try Self.read(TestFrame.reset(1, 7)) == .reset(stream: 1, .refusedStream))
        #expect(try Self.read(TestFrame.settings((4, 1))) == .settings(nine..<nine + 6))
        #expect(try Self.read(TestFrame.frame(.settings, 1)) == .settingsAcknowledgement)
        #expect(try Self.read(TestFrame.frame(.ping, 0, 0, Array(1...8))) == .ping(0x0102_0304_0506_0708))
        #expect(try Self.read(TestFrame.frame(.ping, 1, 0, Array(1...8))) == .pingAnswer(0x0102_0304_0506_0708))
        #expect(
            try Self.read(TestFrame.frame(.goAway, 0, 0, TestFrame.word(5) + TestFrame.word(2) + [1, 2]))
                == .goAway(last: 5, .internalError)
        )
        #expect(try Self.read(TestFrame.windowUpdate(0, 9)) == .windowUpdate(stream: 0, increment: 9))
        // The highest bit of a stream and of an increment is ignored.
        #expect(
            try Self.read(TestFrame.windowUpdate(0x8000_0001, 0x8000_0009)) == .windowUpdate(stream: 1, increment: 9)
        )
        #expect(try Self.read(TestFrame.frame(0x42, 0xFF, 1, [1, 2])) == .ignored)
        #expect(try Self.read(TestFrame.frame(10, 0, 0, [])) == .ignored)
    }

    @Test func flagsThatATypeDoesNotHaveAreIgnored() throws {
        #expect(try Self.read(TestFrame.frame(.ping, 0xFE, 0, Array(1...8))) == .ping(0x0102_0304_0506_0708))
        #expect(try Self.read(TestFrame.frame(.reset, 0xFF, 1, TestFrame.word(0))) == .reset(stream: 1, .noError))
        #expect(
            try Self.read(TestFrame.frame(.windowUpdate, 0xFF, 1, TestFrame.word(1)))
                == .windowUpdate(stream: 1, increment: 1)
        )
    }

    @Test func itDoesNotMatterHowFramesAreCut() throws {
        let frames =
            TestFrame.headers(1, isLast: false) + TestFrame.data(1, 300) + TestFrame.frame(.ping, 0, 0, Array(1...8))
        var reader = HTTP2FrameReader(ofClient: true, maximumList: 32_768)
        let bytes = TestFrame.preface + TestFrame.settings() + frames
        var (position, types) = (0, [UInt8]())
        for end in 0...bytes.count {
            let part = Array(bytes[..<end])
            while case .frame(_, let type, let next) = try reader.next(part.span, from: position) {
                types.append(type)
                position = next
            }
        }
        #expect(types == [4, 1, 0, 6] && position == bytes.count)
    }

    @Test func aBlockInSeveralFrames() throws {
        var reader = try Self.reader()
        let bytes =
            TestFrame.frame(.headers, 1, 1, [1, 2]) + TestFrame.frame(.continuation, 0, 1, [3])
            + TestFrame.frame(.continuation, 0, 1, []) + TestFrame.frame(.continuation, 4, 1, [4, 5])
            + TestFrame.reset(1)
        var (position, frames) = (0, [Frame]())
        while case .frame(let frame, _, let next) = try reader.next(bytes.span, from: position) {
            frames.append(frame)
            position = next
            if case .fields = frame { #expect(reader.takeBlock() == [1, 2, 3, 4, 5] && !reader.isWithinBlock) }
        }
        let last = [Frame.fields(stream: 1, block: nil, isLast: true), .reset(stream: 1, .cancel)]
        #expect(frames == [.ignored, .ignored, .ignored] + last)
        #expect(reader.takeBlock() == [])
    }

    @Test func theFirstLineOfThePrefaceIsRecognised() {
        for count in 0...TestFrame.preface.count {
            let bytes = Array(TestFrame.preface[..<count])
            let begins = HTTP2FrameReader.beginsPreface(bytes.span)
            #expect(begins == (count >= 16))
        }
        let other = Array("PRI * HTTP/2.1\r\n\r\n".utf8)
        let begins = HTTP2FrameReader.beginsPreface(other.span)
        #expect(!begins)
    }

    @Test func theMemoryOfAnUnfinishedBlockIsKnown() throws {
        var reader = try Self.reader()
        #expect(reader.blockMemory == 0)
        let (first, more) = (TestFrame.frame(.headers, 1, 1, [1, 2]), TestFrame.frame(.continuation, 0, 1, [3]))
        _ = try reader.next(first.span, from: 0)
        #expect(reader.blockMemory >= 2 && reader.isWithinBlock)
        for _ in 0..<2 { _ = try reader.next(more.span, from: 0) }
        #expect(reader.blockMemory >= 4)
        reader.dropBlock()
        #expect(reader.blockMemory == 0)
    }

    // MARK: Faults

    @Test(arguments: [
        // Lengths (RFC 9113 section 4.2 and those of each frame).
        ([0, 0x40, 1, 0, 0, 0, 0, 0, 1], HTTP2ErrorNumber.frameSizeError),
        ([0xFF, 0xFF, 0xFF, 0x42, 0, 0, 0, 0, 1], .frameSizeError),
        (TestFrame.frame(.reset, 0, 1, [0, 0, 0]), .frameSizeError),
        (TestFrame.frame(.reset, 0, 1, [0, 0, 0, 0, 0]), .frameSizeError),
        (TestFrame.frame(.settings, 0, 0, [0, 3, 0]), .frameSizeError),
        (TestFrame.frame(.settings, 1, 0, [0]), .frameSizeError),
        (TestFrame.frame(.ping, 0, 0, [1, 2, 3, 4, 5, 6]), .frameSizeError),
        (TestFrame.frame(.ping, 1, 0, []), .frameSizeError),
        (TestFrame.frame(.goAway, 0, 0, [0, 0, 0, 0, 0, 0, 0]), .frameSizeError),
        (TestFrame.frame(.windowUpdate, 0, 0, [0, 0, 1]), .frameSizeError),
        (TestFrame.frame(.windowUpdate, 0, 1, [0, 0, 0, 1, 0]), .frameSizeError),
        (TestFrame.frame(.headers, 0x24, 1, [0, 0, 0, 0]), .frameSizeError),
        (TestFrame.frame(.headers, 0x0C, 1, []), .frameSizeError), (TestFrame.frame(.data, 8, 1, []), .frameSizeError),
        // Padding that is longer than the frame (sections 6.1 and 6.2).
        (TestFrame.frame(.data, 8, 1, [1]), .protocolError),
        (TestFrame.frame(.data, 8, 1, [6, 1, 2, 3, 4, 5]), .protocolError),
        (TestFrame.frame(.headers, 0x0C, 1, [4, 0x82, 0, 0]), .protocolError),
        // Streams (sections 6.1 to 6.10).
        (TestFrame.frame(.data, 0, 0, [1]), .protocolError), (TestFrame.headers(0), .protocolError),
        (TestFrame.frame(.priority, 0, 0, [0, 0, 0, 1, 5]), .protocolError), (TestFrame.reset(0), .protocolError),
        (TestFrame.frame(.settings, 0, 1, []), .protocolError), (TestFrame.frame(.settings, 1, 1, []), .protocolError),
        (TestFrame.frame(.ping, 0, 1, Array(1...8)), .protocolError),
        (TestFrame.frame(.goAway, 0, 1, [0, 0, 0, 0, 0, 0, 0, 0]), .protocolError),
        (TestFrame.frame(.continuation, 4, 0, [0x82]), .protocolError),
        // Others.
        (TestFrame.frame(.pushPromise, 4, 1, [0, 0, 0, 2]), .protocolError),
        (TestFrame.windowUpdate(0, 0), .protocolError),
        // The place of a field block (sections 4.3 and 6.10).
        (TestFrame.frame(.continuation, 4, 1, [0x82]), .protocolError),
        (TestFrame.headers(1) + TestFrame.frame(.continuation, 4, 1, [0x82]), .protocolError),
        (TestFrame.frame(.headers, 0, 1, [0x82]) + TestFrame.frame(.continuation, 4, 3, [0x82]), .protocolError),
        (TestFrame.frame(.headers, 0, 1, [0x82]) + TestFrame.headers(3), .protocolError),
        (TestFrame.frame(.headers, 0, 1, [0x82]) + TestFrame.data(1, 1), .protocolError),
        (TestFrame.frame(.headers, 0, 1, [0x82]) + TestFrame.frame(.priority, 0, 1, [0, 0, 0, 1, 5]), .protocolError),
        (TestFrame.frame(.headers, 0, 1, [0x82]) + TestFrame.frame(.ping, 0, 0, Array(1...8)), .protocolError),
        (TestFrame.frame(.headers, 0, 1, [0x82]) + TestFrame.frame(0x42, 0, 0, []), .protocolError),
        (
            TestFrame.frame(.headers, 0, 1, [0x82]) + TestFrame.frame(.continuation, 0, 1, []) + TestFrame.reset(1),
            .protocolError
        ),
    ])
    func aBrokenFrameEndsTheConnection(_ bytes: [UInt8], _ code: HTTP2ErrorNumber) throws {
        #expect(try Self.fault(bytes) == code)
    }

    @Test func whatBreaksAStreamAlone() throws {
        guard case .streamFault(1, let size)? = try Self.read(TestFrame.frame(.priority, 0, 1, [0, 0, 0, 1])),
            case .streamFault(3, let increment)? = try Self.read(TestFrame.windowUpdate(3, 0))
        else {
            Issue.record("no fault of a stream")
            return
        }
        #expect(size.code == .frameSizeError && increment.code == .protocolError)
    }

    /// A connection that speaks something else is found out before it has sent 24 bytes.
    @Test(arguments: ["GET / HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r", "X", "PRI * HTTP/1.1"])
    func aConnectionThatDoesNotBeginWithThePreface(_ text: String) {
        var reader = HTTP2FrameReader(ofClient: true, maximumList: 32_768)
        #expect(throws: HTTP2Fault.self) { try reader.next(Array(text.utf8).span, from: 0) }
    }

    @Test(arguments: [
        TestFrame.frame(.ping, 0, 0, Array(1...8)), TestFrame.frame(.settings, 1), TestFrame.headers(1),
        TestFrame.windowUpdate(0, 1),
    ])
    func theFirstFrameIsSettings(_ frame: [UInt8]) {
        for isClient in [true, false] {
            var reader = HTTP2FrameReader(ofClient: isClient, maximumList: 32_768)
            let bytes = (isClient ? TestFrame.preface : []) + frame
            #expect(throws: HTTP2Fault.missingSettings) {
                try reader.next(bytes.span, from: 0)
            }
        }
    }

    /// CVE-2024-27316: a block that never ends.
    @Test(arguments: [0, 1, 16_384])
    func aBlockWithoutEndHasABound(_ size: Int) throws {
        var reader = try Self.reader()
        let first = TestFrame.frame(.headers, 0, 1, [0x82])
        _ = try reader.next(first.span, from: 0)
        let more = TestFrame.frame(.continuation, 0, 1, [UInt8](repeating: 0, count: size))
        var count = 0
        do throws(HTTP2Fault) {
            while count < 100 {
                _ = try reader.next(more.span, from: 0)
                count += 1
            }
            Issue.record("no bound")
        } catch {
            #expect(error.code == .enhanceYourCalm && (4...8).contains(count))
        }
    }

    // MARK: Settings

    @Test func settings() throws {
        var settings = HTTP2PeerSettings()
        let bytes = TestFrame.settings(
            (1, 0),
            (2, 0),
            (3, 7),
            (4, 0x7FFF_FFFF),
            (5, 16_777_215),
            (6, 1),
            (8, 1),
            (0x42, 9),
            (3, 8)
        )
        try settings.read(bytes.span.extracting(9..<bytes.count), ofServer: false)
        #expect(settings.maximumStreams == 8 && settings.initialWindow == 0x7FFF_FFFF)
        #expect(settings.allowsExtendedConnect)
    }

    @Test(arguments: [
        (2 as UInt16, 2 as UInt32, false, HTTP2ErrorNumber.protocolError), (2, 1, true, .protocolError),
        (4, 0x8000_0000, false, .flowControlError), (5, 16_383, false, .protocolError),
        (5, 16_777_216, false, .protocolError),
        (8, 2, false, .protocolError),
    ])
    func aSettingThatIsInvalid(_ key: UInt16, _ value: UInt32, _ ofServer: Bool, _ code: HTTP2ErrorNumber) {
        var settings = HTTP2PeerSettings()
        let bytes = TestFrame.settings((key, value))
        do throws(HTTP2Fault) {
            try settings.read(bytes.span.extracting(9..<bytes.count), ofServer: ofServer)
            Issue.record("taken")
        } catch {
            #expect(error.code == code)
        }
    }

    // MARK: What is written

    private static func write(_ capacity: Int = 100_000, _ body: (inout HTTP2FrameWriter) -> Void) -> [UInt8]? {
        var isComplete = false
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
            var writer = unsafe HTTP2FrameWriter(UnsafeMutableRawBufferPointer(buffer))
            body(&writer)
            (count, isComplete) = (writer.count, writer.isComplete)
        }
        return isComplete ? bytes : nil
    }

    @Test func eachFrameThatWeWrite() throws {
        let written = Self.write { writer in
            writer.settings([(.maximumStreams, 100), (.enableConnectProtocol, 1)])
            writer.settingsAcknowledgement()
            writer.ping(0x0102_0304_0506_0708, isAnswer: true)
            writer.goAway(last: 5, .enhanceYourCalm)
            writer.reset(stream: 3, .cancel)
            writer.windowUpdate(stream: 1, 70_000)
            writer.dataHeader(stream: 7, length: 3, isLast: true)
        }
        var expected = TestFrame.settings((3, 100), (8, 1)) + TestFrame.frame(.settings, 1)
        expected += TestFrame.frame(.ping, 1, 0, Array(1...8))
        expected += TestFrame.frame(.goAway, 0, 0, TestFrame.word(5) + TestFrame.word(11))
        expected += TestFrame.reset(3) + TestFrame.windowUpdate(1, 70_000) + [0, 0, 3, 0, 1, 0, 0, 0, 7]
        #expect(written == expected)
    }

    @Test func whatDoesNotFitIsNotWritten() {
        for capacity in 0..<70 {
            let written = Self.write(capacity) { writer in
                writer.reset(stream: 3, .cancel)
                writer.beginFields(stream: 1, isFirst: true)
                writer.status(418)
                writer.field(name: "content-type", "text/plain")
                writer.endFields(isLast: true)
            }
            #expect((written == nil) == (capacity < 58), "\(capacity)")
        }
    }

    private struct Block {
        let frames: [UInt8]
        let lines: [String]
        let neverIndexed: [Bool]
    }

    /// Writes fields as a head of HTTP/1 has them, and reads the frames.
    private func roundTrip(_ head: String, maximumFrame: Int = 16_384, isFirst: Bool = true) throws -> Block {
        let text = Array(head.utf8)
        var section = FieldSection()
        section.begin(at: 0)
        guard case .end = section.read(text.span, maxBytes: 1 << 20, maxFields: 2000) else {
            throw HeadRefusal.bareLineFeed
        }
        let frames = Self.write(1 << 20) { writer in
            writer.beginFields(stream: 5, isFirst: isFirst)
            writer.status(200)
            for field in section.fields { writer.field(text.span, field) }
            writer.endFields(isLast: true, maximumFrame: maximumFrame)
        }
        let bytes = try #require(frames)
        var (reader, position, block) = (try Self.reader(maximumList: 1 << 20), 0, [UInt8]?.none)
        while case .frame(let frame, _, let next) = try reader.next(bytes.span, from: position) {
            position = next
            guard case .fields(5, let range, true) = frame else { continue }
            block = range.map { Array(bytes[$0]) } ?? reader.takeBlock()
        }
        #expect(position == bytes.count)
        var decoder = FieldBlockDecoder()
        let fields = try decoder.decode(try #require(block), .response, maxBytes: 1 << 20, maxFields: 2000)
        #expect(decoder.remembered.lines == [] && fields.malformation == nil && fields.refusal == nil)
        return Block(frames: bytes, lines: fields.lines, neverIndexed: fields.section.fields.map(\.isNeverIndexed))
    }

    @Test func fieldsAreWrittenWithoutATable() throws {
        let block = try roundTrip(
            "Date: today\r\nContent-Type: text/html\r\nX-Thing: a\r\nSet-Cookie: s=1\r\nAuthorization: Bearer t\r\nEmpty:\r\n\r\n"
        )
        #expect(
            block.lines == [
                ":status: 200", "date: today", "content-type: text/html", "x-thing: a", "set-cookie: s=1",
                "authorization: Bearer t", "empty: ",
            ]
        )
        // No table on the way may remember what is secret.
        #expect(block.neverIndexed == [false, false, false, true, true, false])
        // The size of the table comes first, once.
        #expect(block.frames[9] == 0x20 && block.frames[10] == 0x88)
        #expect(try roundTrip("a: b\r\n\r\n", isFirst: false).frames[9] == 0x88)
    }

    /// Lines that were written for HTTP/1, and values that come in parts.
    @Test func linesAndPartsBecomeFields() throws {
        let lines = Array(
            "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nX:  y \r\nSet-Cookie: s\r\n\r\nA: b\r\n"
                .utf8
        )
        let status = Array("X-Status200".utf8)
        let frames = Self.write { writer in
            writer.beginFields(stream: 5, isFirst: false)
            writer.fields(lines.span, from: 17)
            writer.field(status.span, name: 0..<8, valueLength: 6)
            writer.value("is ")
            writer.value(status.span.extracting(8..<11))
            writer.field("Via", valueLength: 1)
            writer.value("a")
            writer.field(named: "Date", "today")
            writer.endFields(isLast: true)
        }
        let bytes = try #require(frames)
        var decoder = FieldBlockDecoder()
        let fields = try decoder.decode(Array(bytes[9...]), .response, maxBytes: 4096, maxFields: 20)
        #expect(
            fields.lines == ["content-type: a/b", "x: y", "set-cookie: s", "x-status: is 200", "via: a", "date: today"]
        )
        #expect(fields.section.fields.map(\.isNeverIndexed) == [false, false, true, false, false, false])
        #expect(fields.malformation == nil)
        let secret = Self.write { writer in
            writer.beginFields(stream: 5, isFirst: false)
            writer.fields(lines.span, from: 17, isSecret: true)
            writer.endFields(isLast: true)
        }
        let all = try decoder.decode(Array(try #require(secret)[9...]), .response, maxBytes: 4096, maxFields: 20)
        #expect(all.section.fields.map(\.isNeverIndexed) == [true, true, true])
    }

    /// Each name of the static table, in small and large letters, becomes its index.
    @Test func namesOfTheStaticTable() throws {
        for (number, field) in StaticFieldTable.fields.enumerated() where !field.name.hasPrefix(":") {
            for name in [field.name, field.name.uppercased()] {
                let bytes = Array(name.utf8)
                #expect(StaticFieldTable.index(bytes.span, bytes.indices) == UInt8(number + 1))
            }
        }
        for name in ["x-a", "datf", "content-typf", "accept-encodinh", "strict-transport-securitx", "a"] {
            let bytes = Array(name.utf8)
            #expect(StaticFieldTable.index(bytes.span, bytes.indices) == 0)
        }
    }

    @Test(arguments: [100, 16_384, 16_385, 40_000, 100_000])
    func aLongBlockIsCut(_ length: Int) throws {
        let value = String(repeating: "v", count: length)
        let block = try roundTrip("a: \(value)\r\nb: c\r\n\r\n")
        #expect(block.lines == [":status: 200", "a: \(value)", "b: c"])
        var (position, types) = (0, [UInt8]())
        while position < block.frames.count {
            let header = HTTP2FrameHeader(block.frames.span, at: position)
            #expect(header.length <= 16_384 && header.stream == 5)
            types.append(header.type)
            position += 9 + header.length
        }
        #expect(types == [1] + [UInt8](repeating: 9, count: (length + 12) / 16_384))
    }

    @Test func pseudoFieldsOfARequest() throws {
        let head = Array("GET POST PATCH / /x a.example".utf8)
        let written = Self.write { writer in
            writer.beginFields(stream: 1, isFirst: false)
            writer.method(head.span, 0..<3)
            writer.method(head.span, 4..<8)
            writer.method(head.span, 9..<14)
            writer.scheme(isTLS: true)
            writer.scheme(isTLS: false)
            writer.path(head.span, 15..<16, isSecret: false)
            writer.path(head.span, 17..<19, isSecret: false)
            writer.path(head.span, 17..<19, isSecret: true)
            writer.authority(head.span, 20..<29)
            writer.protocolName("websocket")
            writer.status(101)
            writer.endFields(isLast: false)
        }
        var decoder = FieldBlockDecoder()
        let fields = try decoder.decode(Array(try #require(written)[9...]), .unjudged)
        #expect(
            fields.lines == [
                ":method: GET", ":method: POST", ":method: PATCH", ":scheme: https", ":scheme: http", ":path: /",
                ":path: /x",
                ":path: /x", ":authority: a.example", ":protocol: websocket", ":status: 101",
            ]
        )
    }

    @Test func linesOfHTTP1() throws {
        let lines =
            "Host: a.example:80\r\nX-Api-Key: k\r\nConnection: close\r\nKeep-Alive: 5\r\nTransfer-Encoding: chunked\r\nUpgrade: x\r\n"
            + "As-User:  42 \r\nCookie: a=1\r\nEmpty:\r\n\r\nNot: read\r\n"
        let (secret, plain) = (Array("Via: 2.0 x\r\n".utf8), Array(lines.utf8))
        let written = Self.write { writer in
            writer.preface()
            writer.beginFields(stream: 1, isFirst: false)
            writer.fields(plain.span, isRequest: true, secretNames: [Array("x-api-key".utf8)])
            writer.fields(secret.span, isSecret: true)
            writer.field("traceparent", valueLength: 19)
            writer.value("00-")
            writer.value(digitsOf: 0x0123_4567_89AB_CDEF)
            writer.endFields(isLast: false)
        }
        let bytes = try #require(written)
        #expect(Array(bytes[..<24]) == TestFrame.preface)
        var decoder = FieldBlockDecoder()
        let fields = try decoder.decode(Array(bytes[33...]), .request)
        #expect(
            fields.lines == [
                ":authority: a.example:80", "x-api-key: k", "as-user: 42", "empty: ", "via: 2.0 x",
                "traceparent: 00-0123456789abcdef", "cookie: a=1",
            ]
        )
        #expect(fields.section.fields.map(\.isNeverIndexed) == [true, false, false, true, false, false])
    }

    @Test func aPathInParts() throws {
        let text = Array("/base/rest".utf8)
        for isSecret in [false, true] {
            let written = Self.write { writer in
                writer.beginFields(stream: 1, isFirst: false)
                writer.method("CONNECT")
                writer.path(length: text.count + 130, isSecret: isSecret)
                writer.value(Array(text[..<5]))
                writer.value(text.span, 5..<text.count)
                writer.value([UInt8](repeating: 0x61, count: 130))
                writer.endFields(isLast: false)
            }
            let bytes = try #require(written)
            var decoder = FieldBlockDecoder()
            let fields = try decoder.decode(Array(bytes[9...]), .unjudged)
            let path = "/base/rest" + String(repeating: "a", count: 130)
            #expect(fields.lines == [":method: CONNECT", ":path: \(path)"])
            #expect(bytes[18] == (isSecret ? 0x14 : 0x04))
        }
    }

    @Test func anIDIsWrittenBehindANameThatWasEncodedOnce() {
        let id = RequestID(run: 5, worker: 2, number: 77)
        for name in ["Gateway-Request-Id", "Via", "x"] {
            let whole = Self.write { $0.field(named: name, id.description) }
            let parts = Self.write { writer in
                writer.value(HTTP2FrameWriter.fieldWithoutValue(Array(name.utf8)))
                writer.value(id)
            }
            #expect(whole != nil && parts == whole)
        }
        let tooLong = Self.write(RequestID.maximumLength) { $0.value(id) }
        #expect(tooLong == nil)
    }

    @Test func theRoomForAFieldIsEnough() throws {
        for (name, value) in [(1, 0), (126, 126), (127, 127), (300, 70_000), (1, 16_384), (1, 500_000)] {
            let text = Array((String(repeating: "n", count: name) + String(repeating: "v", count: value)).utf8)
            let room = HTTP2FrameWriter.roomForBlock + HTTP2FrameWriter.room(for: name, value)
            let written = Self.write(room) { writer in
                writer.beginFields(stream: 1, isFirst: true)
                writer.field(text.span, name: 0..<name, value: name..<text.count, isSecret: true)
                writer.endFields(isLast: false)
            }
            #expect(written != nil)
        }
    }
}
