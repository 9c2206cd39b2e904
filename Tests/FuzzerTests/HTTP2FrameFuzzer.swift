import GatewayHTTP

/// A connection says the same however its bytes are cut, and holds no more than its windows allow. The first byte says who the peer is.
func fuzzHTTP2Frame(_ bytes: [UInt8]) {
    let isClient = bytes.first ?? 0 < 0x80
    let frames = (isClient ? preface : []) + settings + bytes.dropFirst()
    let whole = read(frames, piece: max(1, frames.count), isClient: isClient)
    for piece in [1, 5, 64] { precondition(read(frames, piece: piece, isClient: isClient) == whole) }
}

private let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
private let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]

private func read(_ bytes: [UInt8], piece: Int, isClient: Bool) -> [String] {
    let limits = HTTP2Conversation.Limits(
        headerBytes: 512,
        headerFields: 16,
        maximumStreams: 4,
        connectionWindow: 1024,
        streamWindow: 512
    )
    let start = MonotonicTime(nanoseconds: 0)
    var conversation = HTTP2Conversation(peerIsClient: isClient, limits: limits, at: start)
    if !isClient { for _ in 0..<3 { _ = conversation.openStream(isLast: false) } }
    var (fields, rest, events, next) = (HTTP2FieldTable(), [UInt8](), [String](), 0)
    while next < bytes.count {
        let end = min(bytes.count, next + piece)
        rest += bytes[next..<end]
        next = end
        var position = 0
        loop: while true {
            let event = conversation.receive(rest.span, from: &position, into: &fields, at: { start })
            precondition(position <= rest.count)
            switch event {
            case .needMore: break loop
            case .content(let place, let range, let isLast, let isClosed):
                // Taken at once, and answered where the stream is over.
                conversation.streams.take(range.count, isClosed ? nil : place)
                if isLast, !isClosed { precondition(conversation.streams.endLocal(place)) }
                events.append("content \(place) \(rest[range]) \(isLast) \(isClosed)")
            case .request(let place, let isLast):
                events.append("request \(place) \(isLast) \(Array(fields.bytes[..<fields.end]))")
                if fields.malformation != nil { conversation.streams.reset(place) }
            case .goAway(let last, _):
                events.append("goAway \(conversation.streams.receiveGoAway(last: last))")
            case .connectionFault: return events + ["\(event)"]
            default: events.append("\(event)")
            }
            precondition(conversation.streams.held == 0)
            precondition(conversation.streams.count <= 4 || !isClient)
            _ = conversation.streams.connectionCredit()
        }
        rest.removeFirst(position)
    }
    return events
}
