import GatewayTokens
import Testing

@Suite("Paths that were accepted lately", .timeLimit(.minutes(5)))
struct RecentPathsTests {
    /// - Parameters:
    ///   - before: What stands in the same memory before the method.
    ///   - behind: What follows the path.
    private static func isNew(
        _ method: String,
        _ path: String,
        in recent: inout RecentPaths,
        before: String = "",
        behind: String = " HTTP/1.1"
    ) -> Bool {
        let bytes = Array("\(before)\(method) \(path)\(behind)".utf8)
        let start = before.utf8.count
        let end = start + method.utf8.count
        return recent.isNew(bytes.span, method: start..<end, path: end + 1..<end + 1 + path.utf8.count)
    }

    /// Each letter is a path; `+` stands for new.
    @Test(arguments: [
        ("a", "+"), ("aa", "+-"), ("ab", "++"), ("aba", "++-"), ("abab", "++--"), ("abcdabcd", "++++----"),
        ("abcddcba", "++++----"),
        // The fifth takes the place of the first.
        ("abcdea", "++++++"), ("abcdebcde", "+++++----"), ("abcdefcdef", "++++++----"),
        ("abcdefab", "++++++++"), ("aaaaabcdaaaa", "+----+++----"),
    ])
    func theLastFourAreKnown(_ paths: String, _ expected: String) {
        var recent = RecentPaths()
        let found = paths.map { Self.isNew("GET", "/\($0)", in: &recent) ? "+" : "-" }.joined()
        #expect(found == expected)
    }

    private static func path(_ length: Int) -> [UInt8] { (0..<length).map { UInt8(0x61 + $0 % 26) } }
    private static func text(_ path: [UInt8]) -> String { String(decoding: path, as: UTF8.self) }

    @Test(arguments: 0...33)
    func eachByteOfAPathCounts(_ length: Int) {
        let path = Self.path(length)
        var others = path.indices.map { index in
            var other = path
            other[index] = 0x7E
            return other
        }
        others.append(path + [0x61])
        if !path.isEmpty { others.append(path.dropLast()) }
        // The same bytes in another order.
        if length > 1 { others.append(path.reversed()) }
        if length >= 16 { others.append(Array(path[8..<16] + path[0..<8] + path[16...])) }
        for other in others {
            var recent = RecentPaths()
            let found = [path, other, path, other].map { Self.isNew("GET", Self.text($0), in: &recent) }
            #expect(found == [true, true, false, false], "\(other)")
        }
    }

    @Test(arguments: 0...33)
    func nothingAroundItCounts(_ length: Int) {
        let path = Self.text(Self.path(length))
        for before in ["", "x", "\r\n", "1234567"] {
            for behind in ["", "?query", " HTTP/1.0\r\nHost: a.example\r\n\r\n"] {
                var recent = RecentPaths()
                let first = Self.isNew("GET", path, in: &recent)
                let second = Self.isNew("GET", path, in: &recent, before: before, behind: behind)
                #expect(first && !second, "\(before) \(behind)")
            }
        }
    }

    @Test(arguments: [
        (("GET", "/ab"), ("GE", "T/ab")), (("GET", "/ab"), ("GET/", "ab")), (("GET", "/ab"), ("GET/ab", "")),
        (("GET", "/ab"), ("", "GET/ab")), (("GET", "/ab"), ("PUT", "/ab")), (("GET", "/ab"), ("get", "/ab")),
        (("GET", ""), ("", "GET")), (("DELETE", "/x"), ("GET", "/x")), (("HEAD", "/x"), ("GET", "/x")),
        (("PROPFIND", "/"), ("PROPFIN", "D/")), (("PROPPATCH", "/1234567"), ("PROPPATC", "H/1234567")),
        (("OPTIONS", "*"), ("OPTIONS", "/*")), (("GET", "/a"), ("GET", "/A")),
    ])
    func theMethodIsNoPartOfThePath(_ one: (String, String), _ other: (String, String)) {
        var recent = RecentPaths()
        let found = [one, other, one, other].map { Self.isNew($0.0, $0.1, in: &recent) }
        #expect(found == [true, true, false, false])
    }

    /// Each place to divide a text of up to 24 bytes into a method and a path.
    @Test func noTwoDivisionsAreOne() {
        for length in 1...24 {
            let bytes = Self.path(length)
            for first in 0...length {
                for second in 0...length where second != first {
                    var recent = RecentPaths()
                    _ = recent.isNew(bytes.span, method: 0..<first, path: first..<length)
                    let isNew = recent.isNew(bytes.span, method: 0..<second, path: second..<length)
                    #expect(isNew, "\(first) \(second)")
                }
            }
        }
    }

    @Test func manyPathsAreAllNew() {
        var recent = RecentPaths()
        let found = (0..<20_000).count { Self.isNew("GET", "/items/\($0)", in: &recent) }
        #expect(found == 20_000)
    }

    /// The table of templates may lose one to another meanwhile (``ConfirmedTemplates``).
    @Test(arguments: 1...4)
    func aPathInUseIsNotedOnceMoreNowAndThen(_ count: Int) {
        var recent = RecentPaths()
        var notes = Array(repeating: 0, count: count)
        for round in 0..<4_000 {
            let path = round % count
            if Self.isNew("GET", "/\(path)", in: &recent) { notes[path] += 1 }
        }
        #expect(notes.allSatisfy { (2...20).contains($0) }, "\(notes)")
    }
}
