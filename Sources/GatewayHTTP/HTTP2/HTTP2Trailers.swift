/// Writes the fields behind the content of an HTTP/2 message as a trailer section of HTTP/1, with its empty line.
package struct HTTP2Trailers: Sendable {
    private var fields = HTTP2FieldLines()

    package init() {}

    /// - Returns: Why the message is malformed.
    package mutating func add(_ name: String, _ value: String) -> HTTP2Malformation? {
        name.utf8.first == 0x3A ? .unknownPseudoField : fields.add(name, value)
    }

    package consuming func section() -> [UInt8] {
        fields.end()
        return fields.bytes
    }
}
