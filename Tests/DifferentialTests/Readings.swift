import GatewayHTTP
import NIOCore
import NIOEmbedded
import NIOHTTP1

/// What a reader made of a head; comparable between readers.
struct Reading: Equatable {
    enum Framing: Equatable {
        case none
        case length(Int)
        case chunked
    }

    var method: String
    var target: String
    var isHTTP10: Bool
    /// `name: value`, the value without whitespace around it.
    var fields: [String]
    var framing: Framing
}

enum ReadingResult: Equatable {
    case read(Reading)
    case needMore
    case refused(String)
}

enum OurReading {
    /// - Returns: With a head, also where it ends.
    static func of(_ bytes: [UInt8]) -> (ReadingResult, end: Int) {
        var decoder = RequestHeadDecoder(maxBytes: 1 << 16, maxFields: 200)
        switch decoder.decode(bytes.span) {
        case .needMore: return (.needMore, bytes.count)
        case .refused(let reason): return (.refused(reason.rawValue), bytes.count)
        case .head: return (.read(reading(decoder.head, bytes)), decoder.head.end)
        }
    }

    private static func reading(_ head: borrowing RequestHead, _ bytes: [UInt8]) -> Reading {
        let framing: Reading.Framing
        switch head.framing {
        case .none: framing = .none
        case .length(let length): framing = .length(length)
        case .chunked: framing = .chunked
        case .untilClose: framing = .length(-1)
        }
        func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
        return Reading(
            method: text(head.method),
            target: text(head.method.upperBound + 1..<head.query.upperBound),
            isHTTP10: head.isHTTP10,
            fields: head.fields.map { "\(text($0.name)): \(text($0.value))" },
            framing: framing
        )
    }
}

enum TheirReading {
    /// llhttp within SwiftNIO's decoder, which refuses more than llhttp alone.
    static func of(_ bytes: [UInt8]) -> ReadingResult {
        let channel = EmbeddedChannel()
        defer { _ = try? channel.finish(acceptAlreadyClosed: true) }
        do {
            try channel.pipeline.syncOperations.addHandler(ByteToMessageHandler(HTTPRequestDecoder()))
            try channel.writeInbound(ByteBuffer(bytes: bytes))
            guard case .head(let head)? = try channel.readInbound(as: HTTPServerRequestPart.self) else {
                return .needMore
            }
            return .read(
                Reading(
                    method: head.method.rawValue,
                    target: head.uri,
                    isHTTP10: head.version == .http1_0,
                    fields: head.headers.map { "\($0.name): \(trimmed($0.value))" },
                    framing: try framing(head, channel)
                )
            )
        } catch {
            return .refused("\(error)")
        }
    }

    private static func trimmed(_ value: String) -> String {
        let isPadding: (Character) -> Bool = { $0 == " " || $0 == "\t" }
        guard let first = value.firstIndex(where: { !isPadding($0) }),
            let last = value.lastIndex(where: { !isPadding($0) })
        else { return "" }
        return String(value[first...last])
    }

    /// Found by what it takes to reach the end, not by what the fields say; only beyond 64 bytes they are believed.
    private static func framing(_ head: HTTPRequestHead, _ channel: EmbeddedChannel) throws -> Reading.Framing {
        func hasEnded() throws -> Bool {
            while let part = try channel.readInbound(as: HTTPServerRequestPart.self) {
                if case .end = part { return true }
            }
            return false
        }
        if try hasEnded() { return .none }
        if head.headers.contains(name: "transfer-encoding") {
            try channel.writeInbound(ByteBuffer(string: "1\r\na\r\n0\r\n\r\n"))
            if try hasEnded() { return .chunked }
            return .length(-1)
        }
        for length in 1...64 {
            try channel.writeInbound(ByteBuffer(string: "a"))
            if try hasEnded() { return .length(length) }
        }
        return .length(head.headers.first(name: "content-length").flatMap { Int(trimmed($0)) } ?? -1)
    }
}
