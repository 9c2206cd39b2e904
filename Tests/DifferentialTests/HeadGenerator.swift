import GatewayTesting

/// Makes request heads that are nearly right: each part is mostly as it should be, and sometimes as an attacker has it.
struct HeadGenerator {
    private var random: SplitMix

    init(seed: UInt64) { random = SplitMix(seed: seed) }

    mutating func next() -> [UInt8] {
        var head = part(["GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH"], or: Self.oddMethods)
        head += part([" "], or: ["  ", "\t", "", " \r"])
        head += part(["/", "/a", "/a/b?c=d", "/%20", "http://a/", "http://a/b?c"], or: Self.oddTargets)
        head += part([" "], or: ["  ", "\t", ""])
        head += part(["HTTP/1.1", "HTTP/1.1", "HTTP/1.0"], or: Self.oddVersions)
        head += lineEnd()
        if !chance(of: 20) {
            head += "Host" + colon() + part(["a"], or: ["b", "a:80", "a b", "", "a,b", "[::1]"]) + lineEnd()
        }
        for _ in 0..<below(4) { head += field() }
        if chance(of: 3) { head += framing() }
        head += part(["\r\n"], or: ["\n", "\r", " \r\n", "\r\r\n"])
        var bytes = Array(head.utf8)
        if chance(of: 4) { damage(&bytes) }
        return bytes
    }

    // MARK: Parts

    private mutating func field() -> String {
        let name = part(
            ["Accept", "x-a", "X-1.b|c", "User-Agent"],
            or: ["", "x a", "x:", "(x)", "é", "x\u{0}", " x", "\tx"]
        )
        let value = part(
            ["", "a", " a b ", "\ta\t", "é", "a, b;c=\"d\""],
            or: ["a\u{0}", "a\rb", "a\nb", "a\u{1}", "a\u{7F}", "a\r\n b"]
        )
        return name + colon() + value + lineEnd()
    }

    private mutating func framing() -> String {
        let lines = [
            "Content-Length\(colon())\(part(["0", "3", "5"], or: Self.oddLengths))",
            "Transfer-Encoding\(colon())\(part(["chunked", "Chunked"], or: Self.oddCodings))",
            "Connection\(colon())\(part(["close", "keep-alive"], or: ["close, x", "host", "content-length", ","]))",
            "Expect\(colon())\(part(["100-continue"], or: ["magic", ""]))",
            "Content_Length: 3", "transfer_encoding: chunked", "Host: c",
        ]
        var result = ""
        for _ in 0..<(1 + (chance(of: 6) ? 1 : 0)) {
            result += lines[below(chance(of: 6) ? lines.count : 3)] + lineEnd()
        }
        return result
    }

    private mutating func colon() -> String { part([": ", ":", ":  "], or: [" : ", "", " ", "\t:", ":\u{B}"]) }

    private mutating func lineEnd() -> String { part(["\r\n"], or: ["\n", "\r", "\r\r\n", "\n\r"]) }

    private static let oddMethods = [
        "get", "CONNECT", "TRACE", "PRI", "G(T", "", "GET\u{0}", "é", "LONGERTHANANYMETHODTHATTHEREEVERWAS",
    ]
    private static let oddTargets = [
        "", "*", "a", "/a b", "/é", "/#f", "/\u{0}", "/\u{7F}", "ftp://a/", "http://", "http://u@a/", "http://a:b/",
        "//a", "/\t", "a:80",
    ]
    private static let oddVersions = [
        "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.10", "HTTP/1.", "HTTP/11", "HTTP/1.1 ", "", "ICE/1.0",
    ]
    private static let oddLengths = [
        "", "+3", "-3", "3,3", "0x3", "3 3", "03", "3.0", "999999999999999999999", "\u{B}3", "3\t",
    ]
    private static let oddCodings = [
        "identity", "gzip, chunked", "chunked, chunked", "xchunked", "chunked,", "", "\u{B}chunked", "chunked;q=1",
        "\"chunked\"",
    ]

    // MARK: Chance

    /// Odd parts are rare enough that most heads have none or one: two faults hide each other.
    private mutating func part(_ usual: [String], or odd: [String]) -> String {
        chance(of: 24) ? odd[below(odd.count)] : usual[below(usual.count)]
    }

    private mutating func damage(_ bytes: inout [UInt8]) {
        let at = below(bytes.count)
        switch below(4) {
        case 0: bytes[at] = UInt8(truncatingIfNeeded: random.next())
        case 1: bytes.insert([0x00, 0x09, 0x0A, 0x0D, 0x20, 0x2C, 0x3A, 0x5F, 0x80, 0xFF][below(10)], at: at)
        case 2: bytes.remove(at: at)
        default: bytes.insert(contentsOf: bytes[at..<min(bytes.count, at + 1 + below(12))], at: below(bytes.count))
        }
    }

    private mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &random) }
    private mutating func chance(of bound: Int) -> Bool { below(bound) == 0 }
}
