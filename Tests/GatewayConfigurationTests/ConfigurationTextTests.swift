import Testing

@testable import GatewayConfiguration

/// Entries are added and removed without touching anything else.
@Suite("Editing a configuration", .timeLimit(.minutes(5)))
struct ConfigurationTextTests {
    private static let token = ConfigurationText.Entry(
        "github",
        value: ["strategy: bearer", "token: {env: GITHUB_TOKEN}"]
    )
    private static let route = ConfigurationText.Entry(
        "github",
        value: ["upstream: https://api.github.com", "auth: github"],
        comment: ["GitHub's API."]
    )

    private static func appended(
        _ entry: ConfigurationText.Entry = token,
        to section: String = "credentials",
        in text: String
    ) throws -> String {
        var edited = try ConfigurationText(Array(text.utf8))
        try edited.append(entry, to: section)
        return String(decoding: edited.bytes, as: UTF8.self)
    }

    private static func removed(_ name: String, from section: String = "routes", in text: String) throws -> String {
        var edited = try ConfigurationText(Array(text.utf8))
        try edited.remove(name, from: section)
        return String(decoding: edited.bytes, as: UTF8.self)
    }

    private static func refusal(_ edit: () throws -> String) -> ConfigurationEditError? {
        do {
            _ = try edit()
            return nil
        } catch {
            return error as? ConfigurationEditError
        }
    }

    // MARK: A single value

    private static func set(_ key: String, of name: String = "calc", to text: String, in file: String) throws -> String
    {
        var edited = try ConfigurationText(Array(file.utf8))
        try edited.set(key, of: name, in: "credentials", to: text)
        return String(decoding: edited.bytes, as: UTF8.self)
    }

    @Test func aValueIsWrittenInThePlaceOfAnother() throws {
        let text = """
            version: 1
            credentials:
              # The server of the team.
              calc:
                strategy: oauth2_authorization_code
                client_id: old   # registered
                scopes: [a, b]
              box: {strategy: bearer, client_id: 'old'}
            routes: {}

            """
        #expect(
            try Self.set("client_id", to: "new", in: text) == text.replacing("client_id: old ", with: "client_id: new ")
        )
        let quoted = try Self.set("client_id", to: "a: b #${X}", in: text)
        #expect(quoted == text.replacing("client_id: old ", with: "client_id: \"a: b #$${X}\" "))
        let inBraces = try Self.set("client_id", of: "box", to: "123", in: text)
        #expect(inBraces == text.replacing("client_id: 'old'", with: "client_id: \"123\""))
    }

    @Test(arguments: [
        "client_id: |\n      a\n      b", "client_id: {env: X}", "client_id:", "client_id: &id a", "other: a",
    ])
    func whatIsNotAScalarOnOneLineIsLeft(_ line: String) {
        let text = "version: 1\ncredentials:\n  calc:\n    \(line)\n"
        #expect(Self.refusal { try Self.set("client_id", to: "new", in: text) } != nil)
        #expect(Self.refusal { try Self.set("client_id", of: "nobody", to: "new", in: text) } != nil)
    }

    // MARK: Adding

    @Test func anEntryComesBehindThoseOfItsSection() throws {
        let text = """
            version: 1

            credentials:
              # The first.
              box: {strategy: bearer, token: {env: BOX}}
              # duke: {strategy: bearer}

            routes:
              box: {upstream: https://api.box.com, auth: box}
            """
        let expected = """
            version: 1

            credentials:
              # The first.
              box: {strategy: bearer, token: {env: BOX}}
              # duke: {strategy: bearer}
              github:
                strategy: bearer
                token: {env: GITHUB_TOKEN}

            routes:
              box: {upstream: https://api.box.com, auth: box}
            """
        #expect(try Self.appended(in: text) == expected)
    }

    @Test func whatFitsALineStandsBesideItsName() throws {
        let entry = ConfigurationText.Entry("github", value: ["{preset: github}"])
        #expect(
            try Self.appended(entry, in: "version: 1\ncredentials:\n")
                == "version: 1\ncredentials:\n  github: {preset: github}\n"
        )
    }

    @Test func aCommentStandsAboveIt() throws {
        let text = "version: 1\nroutes:\n  a: {upstream: https://a.example, auth: none}"
        let expected = """
            version: 1
            routes:
              a: {upstream: https://a.example, auth: none}
              # GitHub's API.
              github:
                upstream: https://api.github.com
                auth: github

            """
        #expect(try Self.appended(Self.route, to: "routes", in: text) == expected)
    }

    @Test func theIndentationOfTheFileIsKept() throws {
        let text = "version: 1\nroutes:\n    a:\n        upstream: https://a.example\n        auth: none\n"
        let expected =
            text + "    # GitHub's API.\n    github:\n        upstream: https://api.github.com\n        auth: github\n"
        #expect(try Self.appended(Self.route, to: "routes", in: text) == expected)
    }

    @Test func entriesWithABlankLineBetweenThemGetOne() throws {
        let text = "version: 1\nroutes:\n  a: {auth: none}\n\n  b: {auth: none}\n"
        let expected = text + "\n  # GitHub's API.\n  github:\n    upstream: https://api.github.com\n    auth: github\n"
        #expect(try Self.appended(Self.route, to: "routes", in: text) == expected)
    }

    @Test func lineBreaksAreThoseOfTheFile() throws {
        let text = "version: 1\r\ncredentials:\r\n  a: {strategy: none}"
        let expected = text + "\r\n  github:\r\n    strategy: bearer\r\n    token: {env: GITHUB_TOKEN}\r\n"
        #expect(try Self.appended(in: text) == expected)
    }

    @Test func aByteOrderMarkStays() throws {
        let text = "\u{FEFF}version: 1\ncredentials: {}\n"
        #expect(try Self.appended(in: text).unicodeScalars.first == "\u{FEFF}")
    }

    @Test(arguments: [
        ("credentials: {}  # none yet", "credentials:  # none yet\n  github:"),
        ("credentials:", "credentials:\n  github:"),
        (
            "credentials: {a: {strategy: bearer, token: x}, \"b\": {c: d}, e} # two",
            "credentials: # two\n  a: {strategy: bearer, token: x}\n  \"b\": {c: d}\n  e:\n  github:"
        ),
    ])
    func aSectionInBracesIsUnfolded(_ section: String, _ expected: String) throws {
        let more = "\n    strategy: bearer\n    token: {env: GITHUB_TOKEN}\nroutes: {}\n"
        #expect(try Self.appended(in: "version: 1\n\(section)\nroutes: {}\n") == "version: 1\n" + expected + more)
    }

    @Test func aMissingSectionIsMadeWhereTheDocumentationHasIt() throws {
        let text = "version: 1\n\n# Where to.\nroutes:\n  a: {auth: none}\n"
        let expected = """
            version: 1

            credentials:
              github:
                strategy: bearer
                token: {env: GITHUB_TOKEN}

            # Where to.
            routes:
              a: {auth: none}

            """
        #expect(try Self.appended(in: text) == expected)
        let alone = "version: 1\n\n# The end.\n...\n"
        #expect(
            try Self.appended(in: alone)
                == "version: 1\n\n# The end.\n\ncredentials:\n  github:\n    strategy: bearer\n    token: {env: GITHUB_TOKEN}\n...\n"
        )
    }

    @Test func aNameThatIsNoWordOfYAMLIsQuoted() throws {
        let entry = ConfigurationText.Entry("null", value: ["{preset: github}"])
        #expect(try Self.appended(entry, in: "version: 1\n").contains("  \"null\": {preset: github}"))
    }

    @Test(arguments: [
        ("version: 1\ncredentials:\n  github: {}\n", "has an entry \"github\" already", 2),
        ("version: 1\na: &x {}\ncredentials: *x\n", "an alias", 3),
        ("version: 1\ncredentials: [a]\n", "not a mapping", 2),
        ("version: 1\ncredentials: {a: {},\n  b: {}}\n", "in braces over several lines", 2),
        ("{version: 1}", "each on a line of its own", nil),
        ("version: 1\n a: b", "not expected here", 2),
    ])
    func whatCannotBeEditedIsRefused(_ text: String, _ message: String, _ line: Int?) {
        let refusal = Self.refusal { try Self.appended(in: text) }
        #expect(refusal?.message.contains(message) ?? false, "\(String(describing: refusal))")
        #expect(refusal?.line == line)
    }

    @Test func anEntryThatIsNoYAMLIsRefused() {
        let entry = ConfigurationText.Entry("a", value: ["b: [c"])
        #expect(Self.refusal { try Self.appended(entry, in: "version: 1\n") } != nil)
        let lines = ConfigurationText.Entry("a", value: ["- b", "- c"])
        #expect(Self.refusal { try Self.appended(lines, in: "version: 1\n") } != nil)
    }

    // MARK: Removing

    private static let routes = """
        version: 1
        routes:
          # Of a.
          a:
            upstream: https://a.example
            # Deeper: still of a.

          # Apart from b.

          # Of b, first.
          # Of b, second.
          b: {upstream: https://b.example, auth: none}  # Behind b.
            # Deeper: still of b.
          # Of c.
          c:
            auth: none

        # The end.

        """

    @Test func anEntryGoesWithItsOwnComments() throws {
        let expected = """
            version: 1
            routes:
              # Of a.
              a:
                upstream: https://a.example
                # Deeper: still of a.

              # Apart from b.

              # Of c.
              c:
                auth: none

            # The end.

            """
        #expect(try Self.removed("b", in: Self.routes) == expected)
    }

    @Test func theFirstAndTheLastGoAsWell() throws {
        let withoutFirst = try Self.removed("a", in: Self.routes)
        #expect(withoutFirst.hasPrefix("version: 1\nroutes:\n  # Apart from b.\n\n  # Of b, first.\n"))
        let withoutLast = try Self.removed("c", in: Self.routes)
        #expect(withoutLast.hasSuffix("    # Deeper: still of b.\n\n# The end.\n"))
    }

    @Test func theOnlyOneLeavesAnEmptySection() throws {
        let text = "version: 1\nroutes: # All.\n  a:\n    auth: none\nlimits: {}\n"
        #expect(try Self.removed("a", in: text) == "version: 1\nroutes: {} # All.\nlimits: {}\n")
        #expect(try Self.removed("a", in: "routes:\n  a: {}") == "routes: {}")
    }

    @Test(arguments: [
        ("a", "{b: {}, c: [x, y]}"), ("b", "{a: {t: 1}, c: [x, y]}"), ("c", "{a: {t: 1}, b: {}}"),
    ])
    func inBracesTheCommaGoesWithIt(_ name: String, _ expected: String) throws {
        let text = "version: 1\nroutes: {a: {t: 1}, b: {}, c: [x, y]}\n"
        #expect(try Self.removed(name, in: text) == "version: 1\nroutes: \(expected)\n")
    }

    @Test func anEntryWhoseAnchorIsUsedStays() {
        let text = "routes:\n  a: {auth: &x {strategy: none}}\n  b:\n    auth: *x\n"
        let refusal = Self.refusal { try Self.removed("a", in: text) }
        #expect(refusal?.message == "routes.a has the anchor &x, which is used here as *x; write the value out first")
        #expect(refusal?.line == 4)
        #expect(Self.refusal { try Self.removed("b", in: text) } == nil)
    }

    @Test func whatIsNotThereIsSaid() {
        #expect(Self.refusal { try Self.removed("z", in: Self.routes) }?.message.contains("no entry \"z\"") ?? false)
        #expect(Self.refusal { try Self.removed("a", in: "version: 1\n") }?.message == "there is no routes")
    }

    @Test func whatIsAddedCanBeRemoved() throws {
        for text in [
            Self.routes, "version: 1\nroutes:\n  a: {auth: none}\n", "version: 1\r\nroutes:\r\n  a: |\r\n    b\r\n",
        ] {
            let added = try Self.appended(Self.route, to: "routes", in: text)
            #expect(try Self.removed("github", in: added) == text)
        }
    }
}
