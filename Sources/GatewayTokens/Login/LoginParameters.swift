import GatewayHTTP

/// The query of the address that a browser ended on, read strictly.
package struct LoginParameters: Sendable {
    private let values: [String: String]

    /// Reads what stands behind `expected` in `address`; a fragment is left out.
    ///
    /// An expected address without a path is the same with a slash, which browsers add (RFC 3986 §6.2.3).
    package init(_ address: String, expecting expected: String) throws(LoginRefusal) {
        guard address.utf8.count <= LoginAnswer.limitBytes, address.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw .unreadable
        }
        let address = address.prefix { $0 != "#" }
        let hasQuery = expected.contains("?")
        for start in Self.spellings(of: expected) where address.hasPrefix(start) {
            let rest = address.dropFirst(start.count)
            guard rest.isEmpty || rest.first == (hasQuery ? "&" : "?") else { continue }
            self = try LoginParameters(query: rest.dropFirst())
            return
        }
        throw .elsewhere(expected: expected)
    }

    private static func spellings(of expected: String) -> [String] {
        guard let separator = expected.firstRange(of: "://"),
            !expected[separator.upperBound...].contains(where: { $0 == "/" || $0 == "?" })
        else { return [expected] }
        return [expected, expected + "/"]
    }

    /// - Throws: When an escape is broken, or a name stands there twice (RFC 6749 §3.1).
    package init(query: some StringProtocol) throws(LoginRefusal) {
        var values: [String: String] = [:]
        for pair in query.utf8.split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let value = parts.count == 2 ? FormEncoding.decode(parts[1]) : ""
            guard let name = FormEncoding.decode(parts[0]), let value else { throw .unreadable }
            guard values.updateValue(value, forKey: name) == nil else { throw .unreadable }
        }
        self.values = values
    }

    /// nil when it is missing or empty.
    package subscript(name: String) -> String? { values[name].flatMap { $0.isEmpty ? nil : $0 } }
}
