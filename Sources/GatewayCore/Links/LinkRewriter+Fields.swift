/// Fields of responses.
extension LinkRewriter {
    /// A bit for each ``FieldKind`` that has links.
    package static let concerned: UInt64 = [FieldKind.uriReference, .setCookie].reduce(0) {
        $0 | 1 << UInt64($1.rawValue)
    }

    /// How many bytes the rewritten fields of a head are more than before, at the most; nil where they would be too many.
    package func room(for head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> Int? {
        let growth = maximumGrowth
        var room = 0
        for field in head.fields {
            switch field.kind {
            case .uriReference: room += growth * max(1, Self.count(UInt8(ascii: "<"), in: bytes, field.value))
            case .setCookie:
                let attributes = Self.count(UInt8(ascii: ";"), in: bytes, field.value) + 1
                room += (prefix.count + "; Path=".utf8.count) * attributes
            default: break
            }
        }
        return room <= Self.maximumRoom ? room : nil
    }

    static let maximumRoom = 65_536

    private static func count(_ byte: UInt8, in bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> Int {
        var count = 0
        for index in value where bytes[index] == byte { count += 1 }
        return count
    }

    /// - Parameter name: Of the field.
    package func rewrite(_ kind: FieldKind, name: Range<Int>, _ value: [UInt8]) -> FieldRewrite {
        let rewritten: [UInt8]? =
            switch (kind, name.count) {
            case (.setCookie, _): CookieScope(self).rewrite(value)
            case (.uriReference, "link".utf8.count): rewriteLinks(value)
            case (.uriReference, "refresh".utf8.count): rewriteRefresh(value)
            case (.uriReference, _): toClient(value)
            default: nil
            }
        return rewritten.map { .replaced($0) } ?? .unchanged
    }

    // MARK: Link

    /// `<https://api.example/items?page=2>; rel="next", …` (RFC 8288 section 3)
    private func rewriteLinks(_ value: [UInt8]) -> [UInt8]? {
        var rewritten: [UInt8] = []
        var isChanged = false
        var index = 0
        var isQuoted = false
        while index < value.count {
            let byte = value[index]
            if !isQuoted, byte == UInt8(ascii: "<") {
                guard let end = value[index...].firstIndex(of: UInt8(ascii: ">")) else { return nil }
                let reference = Array(value[(index + 1)..<end])
                let link = toClient(reference)
                isChanged = isChanged || link != nil
                rewritten += [byte] + (link ?? reference) + [UInt8(ascii: ">")]
                index = end + 1
                continue
            }
            rewritten.append(byte)
            if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            if isQuoted, byte == UInt8(ascii: "\\"), index + 1 < value.count {
                index += 1
                rewritten.append(value[index])
            }
            index += 1
        }
        return isChanged && !isQuoted ? rewritten : nil
    }

    // MARK: Refresh

    /// `5; url=https://api.example/wait`, as browsers read it.
    private func rewriteRefresh(_ value: [UInt8]) -> [UInt8]? {
        var index = value.prefix { $0.isDigit || $0 == UInt8(ascii: ".") }.count
        guard index > 0 else { return nil }
        func skipSpace() { while index < value.count, value[index].isOptionalWhitespace { index += 1 } }
        skipSpace()
        guard index < value.count, value[index] == UInt8(ascii: ";") || value[index] == UInt8(ascii: ",") else {
            return nil
        }
        index += 1
        skipSpace()
        guard value[index...].prefix(3).map(\.asciiLowercased) == Array("url".utf8) else { return nil }
        index += 3
        skipSpace()
        guard index < value.count, value[index] == UInt8(ascii: "=") else { return nil }
        index += 1
        skipSpace()
        var end = value.count
        if index < end, value[index] == UInt8(ascii: "'") || value[index] == UInt8(ascii: "\"") {
            guard let close = value[(index + 1)...].firstIndex(of: value[index]) else { return nil }
            index += 1
            end = close
        }
        return toClient(Array(value[index..<end])).map { value[..<index] + $0 + value[end...] }
    }
}
