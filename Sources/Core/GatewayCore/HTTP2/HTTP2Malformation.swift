/// Why a message of HTTP/2 is malformed (RFC 9113 section 8.1.1): its stream is reset, and nothing of it is forwarded.
package enum HTTP2Malformation: String, Hashable, Sendable, Error {
    case invalidName = "a field name is not a lower-case token"
    case invalidValue = "a field value has CR, LF or NUL"
    case paddedValue = "a field value begins or ends with whitespace"
    case connectionField = "a field that belongs to an HTTP/1 connection"
    case invalidTE = "TE is not trailers"
    case unknownPseudoField = "a pseudo-header field that this message cannot have"
    case duplicatePseudoField = "a pseudo-header field twice"
    case latePseudoField = "a pseudo-header field behind a field"
    case missingPseudoField = "a pseudo-header field is missing"
    case invalidMethod = "the method is not a token"
    case invalidScheme = ":scheme is neither http nor https"
    case invalidPath = ":path is neither a path nor *"
    case invalidStatus = ":status has not three digits"
    case hostMismatch = "Host and :authority disagree"
    case contentLengthMismatch = "Content-Length and the content disagree"
    case unfinishedTrailers = "fields behind the content do not end the stream"
}
