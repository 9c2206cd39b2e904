/// What the fields of a head say about the length of its content. Both kinds of heads read it alike: two readings of one message
/// are how requests get smuggled (RFC 9112 section 6).
struct DeclaredFraming {
    private(set) var contentLength: Int?
    private(set) var isChunked = false

    @inline(__always)
    mutating func addContentLength(_ bytes: borrowing Span<UInt8>, _ field: HeadField) -> HeadRefusal? {
        guard contentLength == nil else { return .duplicateContentLength }
        guard !FieldSection.hasTabAround(bytes, field),
            let length = FieldSection.contentLength(bytes, field.value)
        else { return .invalidContentLength }
        contentLength = length
        return nil
    }

    @inline(__always)
    mutating func addTransferEncoding(_ bytes: borrowing Span<UInt8>, _ field: HeadField) -> HeadRefusal? {
        guard !isChunked, !FieldSection.hasTabAround(bytes, field),
            bytes.equalsLowercased(field.value, "chunked")
        else { return .invalidTransferEncoding }
        isChunked = true
        return nil
    }

    /// What the fields may not say together, once all were read.
    @inline(__always)
    func conflict(isHTTP10: Bool) -> HeadRefusal? {
        guard isChunked else { return nil }
        guard contentLength == nil else { return .conflictingFraming }
        return isHTTP10 ? .transferEncodingInHTTP10 : nil
    }
}
