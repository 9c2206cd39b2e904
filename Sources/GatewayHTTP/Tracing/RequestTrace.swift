/// One request as a part of its trace: the span of the request itself, and one for each time that it is sent to the upstream.
///
/// It lies in its ``ExchangeRecord`` and needs no memory of its own.
package struct RequestTrace: Hashable, Sendable {
    /// A try that another one followed.
    package struct Try: Hashable, Sendable {
        package let span: UInt64
        package let sentAt: MonotonicTime
        package let endedAt: MonotonicTime
        /// 0 where the connection was lost.
        package let status: UInt16
    }

    package let trace: TraceContext.TraceID
    /// The client's span; 0 where the trace begins here.
    package let parent: UInt64
    /// The span of the request, as the gateway serves it.
    package let span: UInt64
    /// Its spans are exported.
    package let isSampled: Bool
    /// The client's fields go on as they came: its trace is not recorded, and nothing is to be said of this hop.
    package let passesClients: Bool
    /// How often the request was sent.
    package private(set) var tries: UInt8 = 0
    /// The last time.
    package private(set) var sentAt = MonotonicTime(nanoseconds: 0)
    /// The one before the last.
    package private(set) var earlier: Try?
    private var rejection: (at: MonotonicTime, status: UInt16)?

    /// - Parameter client: What the client says; nil begins a trace.
    package init(following client: TraceContext?, _ sampling: TraceSampling, _ numbers: inout TraceNumbers) {
        span = numbers.next()
        if let client {
            trace = client.trace
            parent = client.parent
            isSampled = client.isSampled
            passesClients = !client.isSampled
        } else {
            trace = TraceContext.TraceID(high: numbers.next(), low: numbers.next())
            parent = 0
            isSampled = sampling.keeps(trace)
            passesClients = false
        }
    }

    /// What the upstream is told; the span of the try that was sent last.
    package var upstreamSpan: UInt64 { Self.span(of: span, tries) }

    /// Differs for each try, and is not 0.
    private static func span(of span: UInt64, _ tries: UInt8) -> UInt64 {
        let next = span &+ UInt64(tries)
        return next == 0 ? 0x100 : next
    }

    /// Whether its spans are exported.
    ///
    /// - Parameter wasLetIn: Who was not decides nothing: the share of the traces that begin here counts.
    package func isExported(wasLetIn: Bool, _ sampling: TraceSampling) -> Bool {
        isSampled && (wasLetIn || parent == 0 || sampling.keeps(span))
    }

    // MARK: Tries

    /// The request is sent, for the first time or again.
    package mutating func send(at now: MonotonicTime) {
        if tries > 0 {
            let (end, status) = rejection ?? (now, 0)
            earlier = Try(span: upstreamSpan, sentAt: sentAt, endedAt: end, status: status)
        }
        rejection = nil
        tries &+= 1
        sentAt = now
    }

    /// The same bytes go on another connection, as none of them had left.
    package mutating func sendUnsent(at now: MonotonicTime) { sentAt = now }

    /// The answer is not passed on: the request is to be sent again.
    package mutating func reject(status: Int, at now: MonotonicTime) {
        rejection = (now, UInt16(clamping: status))
    }

    package static func == (lhs: Self, rhs: Self) -> Bool {
        lhs.trace == rhs.trace && lhs.span == rhs.span && lhs.tries == rhs.tries
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(span) }
}

/// How a trace begins with the fields of a request, and what becomes of them.
extension RequestTrace {
    /// Reads what the client says. More than one `traceparent` says nothing (section 3.2).
    package init(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ sampling: TraceSampling,
        _ numbers: inout TraceNumbers
    ) {
        var found: TraceContext?
        var count = 0
        for field in head.section.fields where TraceFields.isParent(field, bytes) {
            count += 1
            found = TraceContext(bytes, field.value)
        }
        self.init(following: count == 1 ? found : nil, sampling, &numbers)
    }

    /// What becomes of the client's own fields.
    package var fields: TraceFields { passesClients ? .pass : (parent == 0 ? .replaceAll : .replaceParent) }
}
