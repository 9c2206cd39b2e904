/// The order in which a response comes on a stream (RFC 9113 section 8.1), and the length of its content.
package struct HTTP2ResponseOrder: Sendable {
    /// What is out of order; the stream is reset.
    package enum Fault: Error, Hashable, Sendable {
        case contentBeforeHead
        case endedWithInformational
        case tooManyInformational
        case contentLengthMismatch
        case unfinishedTrailers
        case fieldsInTunnel
    }

    /// What a section of fields is.
    package enum Section: Hashable, Sendable {
        case head
        case trailers
    }

    private enum Phase {
        case head
        case content
        case tunnel
    }

    /// Nothing else holds the upstream back: informational responses have no flow control.
    package static let maximumInformational = 64

    private var phase = Phase.head
    private var informationalCount = 0
    private var length = DeclaredLength(.none)
    /// A head has come, perhaps that of an informational response.
    package private(set) var hasHead = false

    package init() {}

    /// Fields have come. For a head, ``receiveHead(_:isInformational:isLast:)`` follows.
    package mutating func receiveFields(isLast: Bool) throws(Fault) -> Section {
        switch phase {
        case .head: return .head
        case .tunnel: throw .fieldsInTunnel
        case .content:
            guard isLast else { throw .unfinishedTrailers }
            guard length.take(0, isLast: true) else { throw .contentLengthMismatch }
            return .trailers
        }
    }

    /// A head was read.
    ///
    /// - Parameter isInformational: Whether another head follows. Not so for a 101, which is the last head.
    package mutating func receiveHead(_ framing: BodyFraming, isInformational: Bool, isLast: Bool) throws(Fault) {
        hasHead = true
        guard !isInformational else {
            guard !isLast else { throw .endedWithInformational }
            informationalCount += 1
            guard informationalCount <= Self.maximumInformational else { throw .tooManyInformational }
            return
        }
        phase = .content
        length = DeclaredLength(framing)
        guard !isLast || length.take(0, isLast: true) else { throw .contentLengthMismatch }
    }

    /// The response has opened a tunnel: what follows is neither content nor trailers.
    package mutating func beginTunnel() { phase = .tunnel }

    package mutating func receiveContent(_ count: Int, isLast: Bool) throws(Fault) {
        switch phase {
        case .head: throw .contentBeforeHead
        case .tunnel: break
        case .content: guard length.take(count, isLast: isLast) else { throw .contentLengthMismatch }
        }
    }
}

extension HTTP2ResponseOrder.Fault {
    /// What the client and the log are told of the upstream.
    package var detail: String {
        switch self {
        case .contentBeforeHead: "It sent a response body before the response headers."
        case .endedWithInformational: "It ended the response after an informational response."
        case .tooManyInformational:
            "It sent more than \(HTTP2ResponseOrder.maximumInformational) informational responses."
        case .contentLengthMismatch: "It sent a response body that does not match its Content-Length."
        case .unfinishedTrailers: "It sent trailers that do not end the response."
        case .fieldsInTunnel: "It sent header fields in a WebSocket."
        }
    }
}

/// Compares the content of an HTTP/2 message with its Content-Length (RFC 9113 section 8.1.1).
///
/// A difference would end the message elsewhere for a peer that speaks HTTP/1.
package struct DeclaredLength: Hashable, Sendable {
    /// nil where the length was not declared.
    private var remaining: Int?

    package init(_ framing: BodyFraming) {
        switch framing {
        case .none: remaining = 0
        case .length(let length): remaining = length
        case .chunked, .untilClose: remaining = nil
        }
    }

    /// - Returns: Whether the content can still be as long as declared.
    package mutating func take(_ count: Int, isLast: Bool) -> Bool {
        guard let remaining else { return true }
        let rest = remaining - count
        self.remaining = rest
        return isLast ? rest == 0 : rest >= 0
    }
}
