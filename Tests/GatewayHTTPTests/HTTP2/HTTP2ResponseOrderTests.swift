import Testing

@testable import GatewayHTTP

@Suite("The order of a response on a stream of HTTP/2", .timeLimit(.minutes(1)))
struct HTTP2ResponseOrderTests {
    private typealias Fault = HTTP2ResponseOrder.Fault

    /// Words stand for what comes; a `.` ends the stream. `length=3` is a head with that Content-Length, `3` is content.
    private static func faults(_ transcript: String) -> Fault? {
        var order = HTTP2ResponseOrder()
        for word in transcript.split(separator: " ") {
            let isLast = word.hasSuffix(".")
            do throws(Fault) { try take(isLast ? word.dropLast() : word, isLast: isLast, &order) } catch {
                return error
            }
        }
        return nil
    }

    private static func take(_ word: Substring, isLast: Bool, _ order: inout HTTP2ResponseOrder) throws(Fault) {
        if let count = Int(word) { return try order.receiveContent(count, isLast: isLast) }
        guard word != "tunnel" else { return order.beginTunnel() }
        guard try order.receiveFields(isLast: isLast) == .head else { return }
        let framing: BodyFraming =
            switch word {
            case "empty", "1xx": .none
            case "head": .untilClose
            default: .length(Int(word.dropFirst("length=".count)) ?? 0)
            }
        try order.receiveHead(framing, isInformational: word == "1xx", isLast: isLast)
    }

    @Test(arguments: [
        "empty.", "head.", "head 3 0 4.", "head 3 fields.", "head fields.", "length=3 3.", "length=3 1 2 0.",
        "length=3 3 fields.", "length=0.", "1xx 1xx head 3.", "empty tunnel 3 4 0.", "1xx empty tunnel 5",
    ])
    func inOrder(_ transcript: String) { #expect(Self.faults(transcript) == nil) }

    @Test(
        arguments: [
            ("3", .contentBeforeHead), ("1xx 3", .contentBeforeHead), ("1xx.", .endedWithInformational),
            ("head 3 fields", .unfinishedTrailers), ("length=3.", .contentLengthMismatch),
            ("length=3 2.", .contentLengthMismatch), ("length=3 4", .contentLengthMismatch),
            ("length=3 2 fields.", .contentLengthMismatch), ("empty 1", .contentLengthMismatch),
            ("empty tunnel 3 fields.", .fieldsInTunnel), ("empty tunnel fields", .fieldsInTunnel),
        ] as [(String, HTTP2ResponseOrder.Fault)]
    )
    func outOfOrder(_ transcript: String, _ fault: HTTP2ResponseOrder.Fault) {
        #expect(Self.faults(transcript) == fault)
        #expect(fault.detail.hasPrefix("It "))
    }

    @Test func informationalResponsesHaveABound() {
        let allowed = String(repeating: "1xx ", count: HTTP2ResponseOrder.maximumInformational)
        #expect(Self.faults(allowed + "head 3.") == nil)
        #expect(Self.faults(allowed + "1xx") == .tooManyInformational)
    }

    @Test func anInformationalHeadCountsAsOne() throws {
        var order = HTTP2ResponseOrder()
        #expect(!order.hasHead)
        try order.receiveHead(.none, isInformational: true, isLast: false)
        #expect(order.hasHead)
    }
}
