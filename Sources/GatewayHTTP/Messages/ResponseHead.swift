/// A response head as it was read: offsets into its bytes, and what they mean for framing.
@usableFromInline
package struct ResponseHead: ~Copyable, Sendable {
    @usableFromInline package internal(set) var status = 0
    package internal(set) var isHTTP10 = false
    /// It came by HTTP/2, and was written as a head of HTTP/1.1.
    package internal(set) var isHTTP2 = false
    /// From the status code to the end of the line, CRLF included.
    package internal(set) var statusAndReason: Range<Int> = 0..<0
    @usableFromInline package internal(set) var section: FieldSection
    package internal(set) var framing: BodyFraming = .none
    package internal(set) var options = ConnectionOptions()
    /// Whether the connection can be used again once the body has ended.
    ///
    /// Stored: a property that computes it is handed a copy of the whole head.
    package internal(set) var upstreamKeepsAlive = true
    /// How long the upstream keeps the connection without a request, where it says so: `Keep-Alive: timeout=5`.
    package internal(set) var keepAliveSeconds: Int?
    package internal(set) var hasDate = false
    /// The status of a gRPC response without messages, which stands in the head.
    package internal(set) var grpcStatus: Int?
    /// Some field has URIs (``FieldKind/uriReference``).
    package internal(set) var hasLinks = false
    package internal(set) var hasCookies = false
    package internal(set) var hasTransportSecurity = false
    package internal(set) var end = 0

    init(_ section: FieldSection) { self.section = section }

    @inlinable @inline(__always)
    package var fields: [HeadField] { section.fields }
    @inlinable @inline(__always)
    package var isInformational: Bool { status < 200 }

}

/// What the `Connection` fields of a head say (RFC 9110 §7.6.1).
package struct ConnectionOptions: Hashable, Sendable {
    package var close = false
    package var keepAlive = false
    package var upgrade = false
    /// Names of fields that end here, lower case; empty for nearly every message.
    package var nominated: [[UInt8]] = []

    /// Makes ready for the fields of the next head.
    @inline(__always)
    mutating func clear() {
        close = false
        keepAlive = false
        upgrade = false
        if !nominated.isEmpty { nominated = [] }
    }

    /// The nominated names, with `-` for `_`, as names of trailers that must not pass.
    package var nominatedAsOwned: [[UInt8]] {
        nominated.map { name in name.map { $0 == 0x5F ? 0x2D : $0 } }
    }

    /// Whether the connection goes on behind the message.
    @inline(__always)
    func keepsConnection(isHTTP10: Bool) -> Bool { isHTTP10 ? keepAlive && !close : !close }

    /// More than any honest message has: each name is compared with each field.
    var nominatesTooMany: Bool { nominated.count > Self.maximumNominated }
    package static let maximumNominated = 32

    /// - Parameter name: In lower case.
    func nominates(_ name: String) -> Bool { nominated.contains { $0.elementsEqual(name.utf8) } }

    mutating func add(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) {
        if bytes.equalsLowercased(value, "keep-alive") {
            keepAlive = true
        } else if bytes.equalsLowercased(value, "close") {
            close = true
        } else {
            addList(bytes, value)
        }
    }

    private mutating func addList(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) {
        var start = value.lowerBound
        while start <= value.upperBound {
            var end = start
            while end < value.upperBound, bytes[end] != 0x2C { end += 1 }
            let option = bytes.trimmed(start..<end)
            if bytes.equalsLowercased(option, "keep-alive") {
                keepAlive = true
            } else if bytes.equalsLowercased(option, "close") {
                close = true
            } else if bytes.equalsLowercased(option, "upgrade") {
                upgrade = true
            } else if !option.isEmpty {
                nominated.append(bytes.array(option).map(\.asciiLowercased))
            }
            start = end + 1
        }
    }
}
