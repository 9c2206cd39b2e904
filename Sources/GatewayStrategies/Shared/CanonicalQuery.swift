import GatewayHTTP

/// The parameters of a query or a form, in an order that both sides of a signature agree on.
enum CanonicalQuery {
    /// How many a form may have: sorting them keeps the event loop busy. Those of a query are bounded by the head.
    static let maximumOfForm = 10_000

    private typealias Pair = (name: [UInt8], value: [UInt8], hasValue: Bool)

    private static let ampersand = UInt8(ascii: "&")
    private static let equals = UInt8(ascii: "=")

    static func count(in form: borrowing Span<UInt8>) -> Int {
        var count = 1
        for index in form.indices where form[index] == ampersand { count += 1 }
        return count
    }

    /// Each parameter as it is, ordered by the bytes of name and value.
    static func sorted(_ query: [UInt8]) -> [UInt8] { joined(pairs(of: query)) }

    /// Each parameter decoded and encoded again, so that only letters, digits and `-._~` stay as they are (RFC 3986 section 2.3), and then
    /// ordered. `+` is read as a space, as servers read it.
    static func encoded(_ queries: [[UInt8]]) -> [UInt8] {
        joined(queries.flatMap(pairs).map { (encoded($0.name), encoded($0.value), true) })
    }

    /// The decoded value of the first parameter with this name; nil if there is none.
    static func value(of name: String, in queries: [[UInt8]]) -> [UInt8]? {
        queries.lazy.flatMap(pairs).first { decoded($0.name).elementsEqual(name.utf8) }.map { decoded($0.value) }
    }

    private static func pairs(of query: [UInt8]) -> [Pair] {
        query.split(separator: ampersand).map { pair in
            let name = pair.prefix { $0 != equals }
            return (Array(name), Array(pair.dropFirst(name.count + 1)), name.count < pair.count)
        }
    }

    private static func decoded(_ bytes: [UInt8]) -> [UInt8] {
        PercentEncoding.decodeLeniently(bytes.span, 0..<bytes.count, isForm: true)
    }

    private static func encoded(_ bytes: [UInt8]) -> [UInt8] {
        var encoded: [UInt8] = []
        for byte in decoded(bytes) { PercentEncoding.append(byte, to: &encoded) }
        return encoded
    }

    private static func joined(_ pairs: [Pair]) -> [UInt8] {
        let sorted = pairs.sorted {
            $0.name == $1.name
                ? $0.value.lexicographicallyPrecedes($1.value) : $0.name.lexicographicallyPrecedes($1.name)
        }
        return Array(
            sorted.map { $0.hasValue ? $0.name + [equals] + $0.value : $0.name }.joined(separator: [ampersand])
        )
    }
}
