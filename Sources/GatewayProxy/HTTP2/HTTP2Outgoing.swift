import GatewayCore
import NIOCore
import NIOHPACK

/// What a request has still to send on its stream.
struct HTTP2Outgoing {
    var head: HPACKHeaders?
    private var content: [ByteBuffer] = []
    private(set) var count = 0
    private var trailers: HPACKHeaders?
    /// Of the content, until all of it is here; nil where its length is not known.
    private var remaining: Int?
    /// Nothing follows what is here.
    private(set) var isComplete = false
    /// The end of the request was sent.
    private(set) var isEnded = false

    mutating func begin(_ head: HPACKHeaders, _ framing: BodyFraming) {
        self.head = head
        switch framing {
        case .none: isComplete = true
        case .length(let length): remaining = length
        case .chunked, .untilClose: break
        }
    }

    /// Content follows, until the client of the tunnel ends it.
    mutating func beginTunnel(_ head: HPACKHeaders) { self.head = head }

    mutating func append(_ bytes: ByteBuffer) {
        guard bytes.readableBytes > 0 else { return }
        defer { checkInvariants() }
        content.append(bytes)
        count += bytes.readableBytes
        guard let rest = remaining else { return }
        remaining = rest - bytes.readableBytes
        if rest <= bytes.readableBytes { isComplete = true }
    }

    /// - Parameter trailers: nil where there are none.
    mutating func end(_ trailers: HPACKHeaders?) {
        isComplete = true
        self.trailers = trailers
    }

    /// At most this number of bytes of the content.
    mutating func take(_ maximum: Int) -> ByteBuffer? {
        defer { checkInvariants() }
        guard let first = content.first else { return nil }
        guard first.readableBytes > maximum else {
            content.removeFirst()
            count -= first.readableBytes
            return first
        }
        count -= maximum
        return content[0].readSlice(length: maximum)
    }

    /// Whether what was just taken ends the request; it counts as sent.
    mutating func endsHere() -> Bool {
        guard isComplete, content.isEmpty, trailers == nil, !isEnded else { return false }
        isEnded = true
        return true
    }

    enum End {
        case content
        case trailers(HPACKHeaders)
    }

    /// What ends the request when its content has been sent; it counts as sent.
    mutating func takeEnd() -> End? {
        guard isComplete, content.isEmpty, !isEnded else { return nil }
        isEnded = true
        return trailers.take().map { .trailers($0) } ?? .content
    }

    mutating func drop() {
        content = []
        count = 0
    }

    private func checkInvariants() {
        assert(count >= 0 && content.isEmpty == (count == 0), "Content was counted that has left.")
        assert(
            content.count > 8 || content.reduce(0) { $0 + $1.readableBytes } == count,
            "The parts of the content do not add up to its length."
        )
        assert(!isEnded || isComplete && content.isEmpty, "A request has ended before all of it was sent.")
    }
}
