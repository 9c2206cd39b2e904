/// Our line in `Via`, which names the version that the message came in (RFC 9110 §7.6.3), and what always follows it.
struct ViaLines: Sendable {
    private let http11: [UInt8]
    private let http10: [UInt8]
    private let http2: [UInt8]

    /// - Parameter field: `Via`, or what stands in its place.
    init(_ field: String = "Via", name: String, then rest: String) {
        http11 = Array("\(field): 1.1 \(name)\r\n\(rest)".utf8)
        http10 = Array("\(field): 1.0 \(name)\r\n\(rest)".utf8)
        http2 = Array("\(field): 2.0 \(name)\r\n\(rest)".utf8)
    }

    var count: Int { http11.count }

    @inline(__always)
    func line(isHTTP10: Bool, isHTTP2: Bool = false) -> [UInt8] { isHTTP10 ? http10 : isHTTP2 ? http2 : http11 }
}
