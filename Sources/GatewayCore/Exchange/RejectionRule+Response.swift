extension RejectionRule {
    /// Whether the body of a response has to be looked at, and can be: it is text, has an end, and is not compressed.
    package func readsBody(of head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        guard body != nil, looksAt(head.status) else { return false }
        if case .none = head.framing { return false }
        let coding = Self.value(of: "content-encoding", in: head, bytes)?.lowercased() ?? "identity"
        let type = Self.value(of: "content-type", in: head, bytes)?.lowercased().prefix { $0 != ";" && $0 != " " } ?? ""
        guard coding == "identity", !Self.streams.contains(String(type)) else { return false }
        return type.isEmpty || type.hasPrefix("text/") || type.hasSuffix("json") || type.hasSuffix("xml")
    }

    /// They have no end, or each part of them is wanted as it comes.
    private static let streams: Set = ["text/event-stream", "application/x-ndjson", "application/stream+json"]

    private func looksAt(_ status: Int) -> Bool {
        status >= 200 && (statuses.isEmpty || statuses.contains(status))
    }

    private static func value(
        of name: StaticString,
        in head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>
    ) -> String? {
        for field in head.fields where bytes.equalsLowercased(field.name, name) { return bytes.string(field.value) }
        return nil
    }

    /// What says in a response that the session is over; nil for nothing.
    ///
    /// - Parameters:
    ///   - upstream: What was asked.
    ///   - content: The beginning of the body, where ``readsBody(of:_:)`` wants it.
    package func sign(
        in head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>,
        from upstream: (origin: Origin, path: [UInt8]),
        content: [UInt8]?
    ) -> Sign? {
        guard looksAt(head.status) else { return nil }
        // A redirect is what follows a form that was taken, too.
        if location == nil, body == nil { return head.status < 400 ? .content : .status }
        if let location, (300..<400).contains(head.status),
            let reference = Self.value(of: "location", in: head, bytes),
            Self.leads(Array(reference.utf8), to: location, from: upstream)
        {
            return .content
        }
        return content.flatMap { body?.firstMatch(in: $0, mostSteps: Self.mostSteps) } == nil ? nil : .content
    }

    private static func leads(
        _ text: [UInt8],
        to location: Location,
        from upstream: (origin: Origin, path: [UInt8])
    ) -> Bool {
        // Only the path is compared, and some servers put spaces and quotes into a query as they are.
        let whole = Array(text.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") })
        guard let target = URIReference(whole)?.resolved(against: upstream.origin, upstream.path),
            target.origin == location.origin ?? upstream.origin
        else { return false }
        let path = URIReference.withoutDotSegments(PercentEncoding.decodeUnreserved(target.path))
        let prefix = PercentEncoding.decodeUnreserved(Array(location.path.utf8))
        guard path.starts(with: prefix) else { return false }
        // Behind a semicolon stand parameters of the segment: servlet containers put their session there.
        let next = path.dropFirst(prefix.count).first
        return next == nil || next == UInt8(ascii: "/") || next == UInt8(ascii: ";")
    }
}
