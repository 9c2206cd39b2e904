import GatewayHTTP
import NIOCore
import NIOHPACK

extension HPACKHeaders {
    /// All names and values.
    var texts: some Sequence<String> { lazy.flatMap { [$0.name, $0.value] } }
}

/// Reads the head that ``RequestWriter`` has written as fields of HTTP/2: what goes upstream is the same in both versions.
struct HTTP2RequestFields {
    let scheme: Origin.Scheme
    /// Names, in lower case, of fields that only the route sets: they may be secrets.
    let secretNames: [[UInt8]]
    /// The target holds a credential.
    let hasSecretTarget: Bool
    let takesTrailers: Bool

    init(_ head: borrowing RequestHead, _ bytes: ByteBuffer, by route: CredentialedRoute, scheme: Origin.Scheme) {
        self.scheme = scheme
        secretNames = route.requestFields.ownedNames
        hasSecretTarget = route.hasSecretTarget
        takesTrailers = head.takesTrailers(bytes.readableBytesUInt8Span)
    }

    /// - Parameters:
    ///   - written: A whole head of HTTP/1.1.
    ///   - limit: The payload of a frame, as the upstream takes it.
    func read(_ written: ByteBuffer, within limit: Int) throws(HeadFault) -> HPACKHeaders {
        let bytes = written.readableBytesUInt8Span
        let start = HTTP2Fields.start(bytes)
        let line = bytes.string(0..<start - "\r\n".utf8.count).split(separator: " ")
        guard line.count == 3 else { throw .unwritable }
        var fields = HPACKHeaders()
        fields.reserveCapacity(24)
        var size = HTTP2BlockSize(within: limit)
        func add(_ name: String, _ value: String, _ indexing: HPACKIndexing) {
            size.add(name, value)
            fields.add(name: name, value: value, indexing: indexing)
        }
        add(":method", String(line[0]), .indexable)
        add(":scheme", scheme.rawValue, .indexable)
        add(":path", String(line[1]), hasSecretTarget ? .neverIndexed : .nonIndexable)
        HTTP2Fields.read(bytes, from: start) { name, value, isUnique in
            // It is the first line, so the fields of HTTP/2 itself stand together.
            let name = name == "host" ? ":authority" : name
            add(name, value, isSecret(name) ? .neverIndexed : isUnique ? .nonIndexable : .indexable)
        }
        if takesTrailers { add("te", "trailers", .indexable) }
        guard size.fits(fields.texts) else { throw .exceedsFrame }
        return fields
    }

    /// A compressed credential could be guessed bit by bit from the length of what is sent (RFC 7541 section 7.1). Clients share the
    /// connection, and the cookies of one could be guessed by another.
    private func isSecret(_ name: String) -> Bool {
        name == "authorization" || name == "cookie" || secretNames.contains { $0.elementsEqual(name.utf8) }
    }

    /// - Parameter section: Trailers of HTTP/1, with the empty line. Those that are too long for a frame are dropped.
    static func read(trailers section: ByteBuffer, within limit: Int) -> HPACKHeaders {
        var fields = HPACKHeaders()
        var size = HTTP2BlockSize(within: limit)
        HTTP2Fields.read(section.readableBytesUInt8Span, from: 0) { name, value, _ in
            fields.add(name: name, value: value)
            size.add(name, value)
        }
        return size.fits(fields.texts) ? fields : HPACKHeaders()
    }
}
