/// Why a head is not accepted. Nothing of a refused head reaches the other side.
package enum HeadRefusal: String, Error, Sendable, CaseIterable {
    case malformedRequestLine = "malformed request line"
    case malformedStatusLine = "malformed status line"
    case invalidTarget = "invalid request target"
    case versionNotSupported = "HTTP version not supported"
    case methodRefused = "method not supported"
    case targetTooLong = "request target too long"
    case headTooLarge = "header section too large"
    case tooManyFields = "too many header fields"
    case tooManyNominated = "Connection names too many fields"
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
    case framingLookAlike = "a field name that can be read as a framing field"
    case invalidExpectation = "unknown expectation"
    case frameNominated = "Connection names a field that must stay"
    case connectWithContent = "CONNECT with content"

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
