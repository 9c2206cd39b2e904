import GatewayHTTP

/// Chunks have the same content and the same end however they are cut.
func fuzzChunk(_ bytes: [UInt8]) {
    let whole = read(bytes, piece: max(1, bytes.count))
    for piece in [1, 3, 7] {
        let other = read(bytes, piece: piece)
        precondition(other.end == whole.end && other.isBroken == whole.isBroken)
        // What comes before a fault is passed on as far as it was cut.
        precondition(whole.isBroken || other.content == whole.content)
    }
    let trailers = readTrailers(bytes, piece: max(1, bytes.count))
    for piece in [1, 3, 7] { precondition(readTrailers(bytes, piece: piece) == trailers) }
}

/// What is passed on of a trailer section; nil while it is not whole, and `[]` when it is refused.
private func readTrailers(_ bytes: [UInt8], piece: Int) -> [UInt8]? {
    var section = TrailerSection(maxBytes: 512, maxFields: 10)
    var end = 0
    while end < bytes.count {
        end = min(bytes.count, end + piece)
        switch section.read(Array(bytes[..<end]).span) {
        case .needMore: continue
        case .refused: return []
        case .complete(let output, _):
            precondition(output.suffix(2) == [0x0D, 0x0A])
            return output
        }
    }
    return nil
}

private func read(_ bytes: [UInt8], piece: Int) -> (content: [UInt8], end: Int?, isBroken: Bool) {
    var decoder = ChunkDecoder()
    var content: [UInt8] = []
    var start = 0
    while start < bytes.count {
        let part = Array(bytes[start..<min(bytes.count, start + piece)])
        switch decoder.feed(part.span, from: 0, onData: { content += part[$0] }) {
        case .pass: start += part.count
        case .trailers(let taken): return (content, start + taken, false)
        case .broken: return (content, nil, true)
        }
    }
    return (content, nil, false)
}
