import GatewayHTTP

/// What Envoy asks by gRPC: `CheckRequest` of `envoy.service.auth.v3` (api/envoy/service/auth/v3).
///
///     CheckRequest.attributes (1) > AttributeContext.request (4) > Request.http (2) > HttpRequest
///
/// These fields of `HttpRequest` are read: method (2), headers (3), path (4), host (5), scheme (6) and header_map (13).
extension OriginalRequest {
    /// Takes the request of which this message tells. Keeps its memory for the next one.
    ///
    /// - Parameter range: Of the message within the bytes.
    package mutating func read(check bytes: borrowing Span<UInt8>, _ range: Range<Int>) throws(Fault) {
        begin()
        let context = try Self.only(1, of: range, bytes, "attributes")
        let request = try Self.only(4, of: context, bytes, "attributes.request")
        try write(try Self.only(2, of: request, bytes, "attributes.request.http"), bytes)
        end()
    }

    /// What is not a message of Protocol Buffers, or has a field of another type.
    private static let encodingFault = Fault.malformed("the CheckRequest")

    private mutating func write(_ http: Range<Int>, _ bytes: borrowing Span<UInt8>) throws(Fault) {
        let method = try Self.only(2, of: http, bytes, "method")
        let path = try Self.only(4, of: http, bytes, "path")
        let host = try Self.only(5, of: http, bytes, "host")
        let scheme = try Self.optional(6, of: http, bytes, "scheme")
        try takeScheme(scheme, bytes, named: "scheme")
        try writeLine(method, path, host, bytes, named: ("method", "path", "host"))
        var reader = ProtobufReader(http)
        while let field = try Self.next(&reader, bytes) {
            switch (field.number, field.value) {
            // An entry of a map, and the list of HeaderMap: each with a name (1) and a value (2), or raw bytes (3).
            case (3, .bytes(let entry)): try add(entry, bytes)
            case (13, .bytes(let list)):
                var entries = ProtobufReader(list)
                while let entry = try Self.next(&entries, bytes) {
                    if case (1, .bytes(let range)) = (entry.number, entry.value) { try add(range, bytes) }
                }
            default: break
            }
        }
    }

    private mutating func add(_ entry: Range<Int>, _ bytes: borrowing Span<UInt8>) throws(Fault) {
        let name = try Self.only(1, of: entry, bytes, "headers")
        let text = try Self.optional(2, of: entry, bytes, "headers")
        let raw = try Self.optional(3, of: entry, bytes, "headers")
        let value = text.flatMap { $0.isEmpty ? nil : $0 } ?? raw ?? name.upperBound..<name.upperBound
        // What the pseudo-fields say stands in fields of the message.
        guard bytes[name.lowerBound] != 0x3A else { return }
        if bytes.equalsLowercased(name, "x-gw-route") {
            guard takeRoute(value, bytes) else { throw .duplicate(EnginePlan.routeField) }
        }
        guard addField(name, value, bytes) else { throw .malformed("headers") }
    }

    // MARK: Messages

    private static func next(
        _ reader: inout ProtobufReader,
        _ bytes: borrowing Span<UInt8>
    ) throws(Fault) -> ProtobufReader.Field? {
        do throws(ProtobufReader.Malformed) {
            return try reader.next(in: bytes)
        } catch {
            throw encodingFault
        }
    }

    /// The field of this number, which must be there once and not be empty.
    private static func only(
        _ number: Int,
        of message: Range<Int>,
        _ bytes: borrowing Span<UInt8>,
        _ name: String
    ) throws(Fault) -> Range<Int> {
        guard let value = try optional(number, of: message, bytes, name), !value.isEmpty else {
            throw .missing(name)
        }
        return value
    }

    private static func optional(
        _ number: Int,
        of message: Range<Int>,
        _ bytes: borrowing Span<UInt8>,
        _ name: String
    ) throws(Fault) -> Range<Int>? {
        var found: Range<Int>?
        var reader = ProtobufReader(message)
        while let field = try next(&reader, bytes) {
            guard field.number == number else { continue }
            guard case .bytes(let range) = field.value else { throw encodingFault }
            // Readers may disagree about which one counts.
            guard found == nil else { throw .duplicate(name) }
            found = range
        }
        return found
    }
}
