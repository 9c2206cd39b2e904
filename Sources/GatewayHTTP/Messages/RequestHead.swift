/// A request head as it was read: offsets into its bytes, and what they mean for framing and routing.
///
/// It is valid only together with the bytes it was decoded from. Its connection reuses it, so that a warm connection
/// allocates nothing to read a head. It is lent and not copied, so that reading from it costs no reference count.
@usableFromInline
package struct RequestHead: ~Copyable, Sendable {
    package enum Form: Sendable {
        case origin
        case absolute
        /// `*`, for OPTIONS only.
        case asterisk
        /// `host:port`, for CONNECT only.
        case authority
    }

    package internal(set) var method: Range<Int> = 0..<0
    package internal(set) var form: Form = .origin
    /// The authority of an absolute-form or authority-form target; empty otherwise.
    package internal(set) var targetAuthority: Range<Int> = 0..<0
    package internal(set) var path: Range<Int> = 0..<0
    /// The query with its `?`; empty if there is none.
    package internal(set) var query: Range<Int> = 0..<0
    package internal(set) var isHTTP10 = false
    package internal(set) var isHead = false
    /// May be repeated although an earlier attempt may have been acted upon (RFC 9110 §9.2.2).
    package internal(set) var isIdempotent = false
    @usableFromInline package internal(set) var section = FieldSection()
    /// Empty when an HTTP/1.0 client sent none.
    package internal(set) var host: Range<Int> = 0..<0
    package internal(set) var framing: BodyFraming = .none
    package internal(set) var options = ConnectionOptions()
    package internal(set) var expectsContinue = false
    package internal(set) var wantsUpgrade = false
    /// The position after the empty line.
    package internal(set) var end = 0
    /// Which of the rarer kinds are there at all, so that rules about them need no search.
    @usableFromInline package internal(set) var present: FieldPresence = []

    /// Whether the connection can carry another request after this one, as far as the client is concerned.
    ///
    /// Stored: a property that computes it is handed a copy of the whole head.
    package internal(set) var clientKeepsAlive = true

    @inlinable @inline(__always)
    package var fields: [HeadField] { section.fields }

    /// The method's name; the usual ones are short enough to need no memory of their own.
    package borrowing func methodName(_ bytes: borrowing Span<UInt8>) -> String {
        usualMethod(bytes)?.name ?? bytes.string(method)
    }

    /// nil for a method that few requests have.
    package borrowing func usualMethod(_ bytes: borrowing Span<UInt8>) -> UsualMethod? {
        switch (method.count, bytes[method.lowerBound]) {
        case (3, 0x47) where isIdempotent: .get
        case (3, 0x50) where isIdempotent: .put
        case (4, _) where isHead: .head
        case (6, 0x44) where isIdempotent: .delete
        case (7, 0x4F) where isIdempotent: .options
        case (4, 0x50) where bytes.equals(method, "POST"): .post
        default: nil
        }
    }

    package borrowing func isOptions(_ bytes: borrowing Span<UInt8>) -> Bool {
        isIdempotent && method.count == 7 && bytes[method.lowerBound] == 0x4F
    }

    /// Names the server as a whole by an absolute target without a path (RFC 9112 §3.2.4).
    package borrowing func asksForServer(_ bytes: borrowing Span<UInt8>) -> Bool {
        form == .absolute && path.isEmpty && query.isEmpty && isOptions(bytes)
    }

    /// An absolute target begins with `https`.
    package borrowing func asksForTLS(_ bytes: borrowing Span<UInt8>) -> Bool {
        form == .absolute && bytes[targetAuthority.lowerBound - "s://".utf8.count].asciiLowercased == 0x73
    }

    /// A browser says where it comes from.
    @inlinable @inline(__always)
    package var mayBeOfPage: Bool { present.contains(.origin) || present.contains(.secFetchSite) }

    /// The client takes trailers (RFC 9110 section 10.1.4).
    package func takesTrailers(_ bytes: borrowing Span<UInt8>) -> Bool {
        for field in section.fields where field.kind == .te {
            var start = field.value.lowerBound
            while start < field.value.upperBound {
                var end = start
                while end < field.value.upperBound, bytes[end] != 0x2C { end += 1 }
                if bytes.equalsLowercased(bytes.trimmed(start..<end), "trailers") { return true }
                start = end + 1
            }
        }
        return false
    }

    /// As it was made, with the memory of its fields.
    mutating func renew() {
        self = RequestHead(section: section)
        section.begin(at: 0)
    }

    package func first(_ kind: FieldKind) -> HeadField? { section.fields.first { $0.kind == kind } }

    /// nil where there is none, or more than one.
    package var onlyDestination: HeadField? {
        let fields = section.fields.filter { $0.kind == .destination }
        return fields.count == 1 ? fields[0] : nil
    }
}

/// A method that is told from others without a comparison of texts. Its number is a bit.
package enum UsualMethod: UInt8, CaseIterable, Sendable {
    case get = 1
    case put = 2
    case head = 4
    case delete = 8
    case options = 16
    case post = 32

    package var name: String {
        switch self {
        case .get: "GET"
        case .put: "PUT"
        case .head: "HEAD"
        case .delete: "DELETE"
        case .options: "OPTIONS"
        case .post: "POST"
        }
    }
}

@usableFromInline
package struct FieldPresence: OptionSet, Sendable {
    @usableFromInline package let rawValue: UInt16

    @inlinable @inline(__always)
    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// What `OptionSet` has is a call through a table into another module.
    @inlinable @inline(__always)
    package func contains(_ member: FieldPresence) -> Bool { rawValue & member.rawValue == member.rawValue }

    @inlinable package static var authorization: FieldPresence { FieldPresence(rawValue: 1 << 0) }
    @inlinable package static var proxyAuthorization: FieldPresence { FieldPresence(rawValue: 1 << 1) }
    @inlinable package static var origin: FieldPresence { FieldPresence(rawValue: 1 << 2) }
    @inlinable package static var secFetchSite: FieldPresence { FieldPresence(rawValue: 1 << 3) }
    @inlinable package static var via: FieldPresence { FieldPresence(rawValue: 1 << 4) }
    @inlinable package static var requestID: FieldPresence { FieldPresence(rawValue: 1 << 5) }
    @inlinable package static var secondAuthorization: FieldPresence { FieldPresence(rawValue: 1 << 6) }
    @inlinable package static var destination: FieldPresence { FieldPresence(rawValue: 1 << 7) }
    @inlinable package static var accessControl: FieldPresence { FieldPresence(rawValue: 1 << 8) }
    /// A field may ask for another method or path than the request line names, such as `X-HTTP-Method-Override`. Only without it there
    /// is none for certain.
    @inlinable package static var operation: FieldPresence { FieldPresence(rawValue: 1 << 9) }
}

/// Why a head is not accepted. Nothing of a refused head reaches the other side.
package enum HeadRefusal: String, Error, Sendable, CaseIterable {
    case malformedRequestLine = "malformed request line"
    /// The hello of TLS in place of a request.
    case tlsHello = "the client speaks TLS; this listener has no tls"
    case malformedStatusLine = "malformed status line"
    /// SETTINGS in place of a response: the upstream speaks nothing but HTTP/2.
    case http2Response =
        "malformed status line; the upstream speaks HTTP/2; set protocol: auto in the route (with http://, protocol: http2)"
    case invalidTarget = "invalid request target"
    case versionNotSupported = "HTTP version not supported"
    case methodRefused = "method not supported"
    case targetTooLong = "request target too long"
    case headTooLarge = "header section too large"
    case tooManyFields = "too many header fields"
    case tooManyNominated = "Connection lists too many fields"
    case invalidFieldName = "invalid field name"
    case invalidFieldValue = "invalid byte in a field value"
    case bareLineFeed = "line break is not CRLF"
    case foldedLine = "folded header line"
    case missingHost = "missing Host"
    case duplicateHost = "more than one Host"
    case invalidHost = "invalid Host"
    case hostMismatch = "Host and target disagree"
    case invalidContentLength = "invalid Content-Length"
    case duplicateContentLength = "more than one Content-Length"
    case conflictingFraming = "Content-Length with Transfer-Encoding"
    case invalidTransferEncoding = "Transfer-Encoding is not exactly chunked"
    case transferEncodingInHTTP10 = "Transfer-Encoding in HTTP/1.0"
    case framingLookAlike = "a field name that could be mistaken for a framing field"
    case invalidExpectation = "unknown expectation"
    case frameNominated = "Connection lists a field that must not be removed"
    case connectWithContent = "CONNECT with a body"

    /// The problem that a client is answered with.
    package var kind: ProblemKind {
        switch self {
        case .versionNotSupported: .versionNotSupported
        case .methodRefused: .methodRefused
        case .targetTooLong: .targetTooLong
        case .headTooLarge, .tooManyFields, .tooManyNominated: .fieldsTooLarge
        default: .requestRefused
        }
    }
}

/// How the end of a body is found (RFC 9112 §6).
package enum BodyFraming: Hashable, Sendable {
    case none
    case length(Int)
    case chunked
    /// Responses only: the body ends with the connection.
    case untilClose
}
