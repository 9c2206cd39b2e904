import GatewayHTTP
import Testing

@Suite("Table layout", .timeLimit(.minutes(5)))
struct TableLayoutTests {
    private static let titles = ["NAME", "STATE", "WHAT TO DO"]
    private static let rows = [
        ["box", "login_required", "log in: authgateway login box, and tell the others"],
        ["reports", "valid", ""],
    ]

    private func table(_ width: Int?) -> String {
        TableLayout(titles: Self.titles, rows: Self.rows, width: width).text
    }

    @Test func aPipeGetsOneLineForEachRow() {
        #expect(
            table(nil) == """
                NAME     STATE           WHAT TO DO
                box      login_required  log in: authgateway login box, and tell the others
                reports  valid

                """
        )
        #expect(table(200) == table(nil))
    }

    @Test func theWidestColumnIsWrappedBetweenWords() {
        #expect(
            table(50) == """
                NAME     STATE           WHAT TO DO
                box      login_required  log in: authgateway login
                                         box, and tell the others
                reports  valid

                """
        )
    }

    @Test func whatIsTooNarrowForColumnsIsAListOfFacts() {
        #expect(
            table(30) == """
                NAME:       box
                STATE:      login_required
                WHAT TO DO: log in:
                            authgateway login
                            box, and tell the
                            others

                NAME:       reports
                STATE:      valid

                """
        )
    }

    @Test(arguments: 1...120)
    func noWordIsBrokenAndNoLineIsTooLongWithoutNeed(_ width: Int) {
        let words = Set(Self.rows.joined().flatMap { $0.split(separator: " ") })
        let text = table(width)
        let shown = Set(text.split(whereSeparator: \.isWhitespace))
        #expect(words.isSubset(of: shown))
        // The longest word and the margin of a list of facts.
        for line in text.split(separator: "\n") { #expect(line.count <= max(width, 26), "\(width): \(line)") }
    }

    @Test func longNamesLoseTheirMiddleWhereThatMakesRoom() {
        let rows = [["box-service[user:1234567890]", "2026-03-01T09:30:00Z"], ["total", "-"]]
        func layout(_ width: Int?) -> TableLayout {
            TableLayout(titles: ["CREDENTIAL", "LAST"], rows: rows, width: width, shortened: [0])
        }
        #expect(layout(nil).fits && layout(50).fits && !layout(49).fits)
        #expect(layout(nil).text == layout(50).text)
        #expect(
            layout(42).text == """
                CREDENTIAL            LAST
                box-servic…34567890]  2026-03-01T09:30:00Z
                total                 -

                """
        )
        for width in 34...49 {
            let lines = layout(width).text.split(separator: "\n")
            #expect(lines.count == 3 && lines.allSatisfy { $0.count <= width }, "\(width)")
        }
        let list = layout(33).text
        #expect(list.hasPrefix("CREDENTIAL: box-service[user:1234567890]\n"), "a list has whole names")
    }

    @Test func coloursTakeNoRoom() {
        let plain = table(50)
        let painted = TableLayout(titles: Self.titles, rows: Self.rows, width: 50) { row, column, text in
            row == 0 && column == 1 ? "<\(text)>" : text
        }.text
        #expect(painted.replacing("<", with: "").replacing(">", with: "") == plain)
        #expect(painted.contains("<login_required>"))
    }
}
