/// Follows one body by its framing: how much has come and where it ends.
package struct MessageBody: Sendable {
    package enum Progress: Sendable {
        /// Forward this many bytes; more are expected.
        case forward(Int)
        /// Forward this many bytes; they are the last.
        case last(Int)
        /// Forward this many bytes of chunks, then the trailer section follows.
        case trailers(Int)
        case broken
    }

    private enum State: Sendable {
        case complete
        case length(remaining: Int)
        case chunked
        case trailers
        case untilClose
    }

    private var state: State
    private var chunks = ChunkDecoder()
    /// Bytes seen, framing included, trailers not.
    package private(set) var received = 0

    package init(_ framing: BodyFraming) {
        switch framing {
        case .none: state = .complete
        case .untilClose: state = .untilClose
        case .length(let length): state = .length(remaining: length)
        case .chunked: state = .chunked
        }
    }

    package var isComplete: Bool {
        if case .complete = state { return true }
        return false
    }

    package var awaitsTrailers: Bool {
        if case .trailers = state { return true }
        return false
    }

    /// Whether the end of the connection is the end of the body.
    package var endsWithConnection: Bool {
        if case .untilClose = state { return true }
        return false
    }

    /// - Parameter onData: Given each run of content, without the framing of chunks.
    package mutating func receive(
        _ bytes: borrowing Span<UInt8>,
        onData: (Range<Int>) -> Void = { _ in }
    ) -> Progress {
        switch state {
        case .complete, .trailers:
            return .broken
        case .untilClose:
            received += bytes.count
            onData(0..<bytes.count)
            return .forward(bytes.count)
        case .length(let remaining):
            let taken = min(remaining, bytes.count)
            received += taken
            onData(0..<taken)
            guard taken < remaining else {
                state = .complete
                return .last(taken)
            }
            state = .length(remaining: remaining - taken)
            return .forward(taken)
        case .chunked:
            switch chunks.feed(bytes, from: 0, onData: onData) {
            case .pass(let count):
                received += count
                return .forward(count)
            case .trailers(let count):
                received += count
                state = .trailers
                return .trailers(count)
            case .broken:
                return .broken
            }
        }
    }

    package mutating func trailersReceived() { state = .complete }
}
