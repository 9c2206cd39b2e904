import Testing

@testable import GatewayConfiguration

@Suite("Formatting a configuration", .timeLimit(.minutes(5)))
struct TextFormatterTests {
    private static func formatted(_ text: String) throws -> String {
        var edited = try ConfigurationText(Array(text.utf8))
        try edited.format()
        return String(decoding: edited.bytes, as: UTF8.self)
    }

    @Test func spacesAndBlankLinesAreThoseOfOneStyle() throws {
        let text = """

            version:   1
            listeners:
                proxy :
                -   address:  127.0.0.1:8080   # Here.
                    # A key of the first.
                    allow_users: [ 0,
                                   1 ]
                # Of the list.
                -   unix: ./p.sock
                # After the list.
                admin: {address: 127.0.0.1:8081}\("  ")



            # The routes.
            routes:
                # Of a.
                a:
                    upstream:
                      https://a.example
                    # More of a.
                    auth: "none"
            # At the margin.


            """
        let expected = """
            version: 1

            listeners:
              proxy:
                - address: 127.0.0.1:8080   # Here.
                  # A key of the first.
                  allow_users: [ 0,
                                 1 ]
                # Of the list.
                - unix: ./p.sock
              # After the list.
              admin: {address: 127.0.0.1:8081}

            # The routes.
            routes:
              # Of a.
              a:
                upstream:
                  https://a.example
                # More of a.
                auth: "none"
            # At the margin.

            """
        #expect(try Self.formatted(text) == expected)
    }

    @Test(arguments: [
        (
            "a:\n    b: |\n        one  \n          two\n\n\n    c: d\n",
            "a:\n  b: |\n      one  \n        two\n\n  c: d\n"
        ),
        ("a:\n    b: |2\n      one\n       two\n", "a:\n  b: |2\n    one\n     two\n"),
        ("a:\n    b: \"one\n      two\"\n", "a:\n  b: \"one\n    two\"\n"),
        ("a:\n  -  - b\n     - c\n", "a:\n  - - b\n    - c\n"),
        ("a: &x\n   b: c\nd:   *x\n", "a: &x\n  b: c\n\nd: *x\n"),
        ("---\na:   b\n...\n", "---\na: b\n...\n"),
        ("a: b\r\nc:\r\n - d", "a: b\r\n\r\nc:\r\n  - d\r\n"),
        ("a:\n    b: c\n    # d:\n    #   e: f\n", "a:\n  b: c\n  # d:\n  #   e: f\n"),
    ])
    func whatSpansLinesMovesAsAWhole(_ text: String, _ expected: String) throws {
        #expect(try Self.formatted(text) == expected)
    }

    /// To format it again changes nothing, and no comment is lost: that it means the same is checked by what formats.
    @Test(arguments: ConfigurationEditPropertyTests.files)
    func everyExampleCanBeFormatted(_ file: String) throws {
        let whole = try ConfigurationEditPropertyTests.text(file)
        for text in [whole, whole.replacing("\n", with: "\r\n"), Self.widened(whole)] {
            guard let edited = try? ConfigurationText(Array(text.utf8)) else { continue }
            var once = edited
            try once.format()
            var twice = once
            try twice.format()
            #expect(once.bytes == twice.bytes)
            #expect(Self.comments(once.bytes) == Self.comments(edited.bytes))
        }
    }

    /// With twice the indentation.
    private static func widened(_ text: String) -> String {
        text.split(separator: "\n", omittingEmptySubsequences: false)
            .map { line in String(line.prefix { $0 == " " }) + line }.joined(separator: "\n")
    }

    private static func comments(_ bytes: [UInt8]) -> [String] {
        String(decoding: bytes, as: UTF8.self).split { $0.isNewline }.compactMap { line in
            line.firstIndex(of: "#").map { String(line[$0...]).replacing(/\s+$/, with: "") }
        }
    }
}
