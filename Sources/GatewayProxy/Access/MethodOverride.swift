import GatewayHTTP

/// Refuses requests that ask the upstream, in a field or in the query, for another method or path than the request line names.
///
/// A route with `allow` decides by method and path of the request line; some frameworks then execute what these name. They are
/// refused and not removed: without them the upstream would execute an operation that the client did not mean.
enum MethodOverride {
    /// The names of fields, in lower case, with `-` for `_`: frameworks read both alike.
    static let fieldNames = methodFields + pathFields
    private static let methodFields = ["x-http-method", "x-http-method-override", "x-method-override"].map {
        Array($0.utf8)
    }
    private static let pathFields = ["x-original-url", "x-rewrite-url"].map { Array($0.utf8) }
    private static let parameter = Array("_method".utf8)

    static func refusal(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        route: String
    ) -> GatewayProblem? {
        // Asked first: nearly no request has such a field, and the names are behind a check of their own.
        if head.present.contains(.operation), let field = field(in: head, bytes, among: fieldNames) {
            return problem("The field \(field)", route)
        }
        return namesMethod(bytes, head.query) ? problem("The query parameter _method", route) : nil
    }

    /// For routes without `allow` that keep clients from some paths.
    ///
    /// - Returns: The name of a field that names another path.
    static func pathField(in head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> String? {
        field(in: head, bytes, among: pathFields)
    }

    private static func field(
        in head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        among names: [[UInt8]]
    ) -> String? {
        guard head.present.contains(.operation) else { return nil }
        for index in head.section.fields.indices {
            let name = head.section.fields[index].name
            for field in names where bytes.equalsDashed(name, field) { return bytes.string(name) }
        }
        return nil
    }

    private static func namesMethod(_ bytes: borrowing Span<UInt8>, _ query: Range<Int>) -> Bool {
        var start = query.lowerBound + 1
        while start < query.upperBound {
            var end = start
            while end < query.upperBound, bytes[end] != 0x26, bytes[end] != 0x3B { end += 1 }
            if beginsWithParameter(bytes, start..<end) { return true }
            start = end + 1
        }
        return false
    }

    /// PHP reads `_method[]` and `.method` as `_method`, and leading spaces not at all. Some frameworks ignore case. Every request is
    /// asked, so this takes no memory.
    private static func beginsWithParameter(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> Bool {
        var (index, matched) = (range.lowerBound, 0)
        while index < range.upperBound, matched < parameter.count {
            let escape = PercentEncoding.escape(bytes, at: index, before: range.upperBound)
            let byte = escape ?? (bytes[index] == 0x2B ? 0x20 : bytes[index])
            index += escape == nil ? 1 : 3
            if matched == 0, byte == 0x20 { continue }
            let read = matched == 0 && byte == 0x2E ? 0x5F : byte.asciiLowercased
            guard read == parameter[matched] else { return false }
            matched += 1
        }
        return matched == parameter.count
    }

    private static func problem(_ what: String, _ route: String) -> GatewayProblem {
        let detail =
            "\(what) asks for another operation than the request line names, which the route \(route) decides by (allow)."
        return GatewayProblem(.routeForbidden, detail)
    }
}
