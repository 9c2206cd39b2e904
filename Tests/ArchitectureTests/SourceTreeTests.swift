import Testing

@Suite("Source tree", .timeLimit(.minutes(5)))
struct SourceTreeTests {
    @Test func commentsAndStringsAreNotCode() {
        let lines = SourceTree.codeLines(
            of: #"""
                let a = "print(1)" // try!
                /* fatalError( */ let b = 2
                let c = "quote \" print("; print(c)
                let text = """
                    import NIO
                    """
                """#
        )
        #expect(!lines[0].code.contains("print"))
        #expect(!lines[0].code.contains("try"))
        #expect(lines[1].code.contains("let b"))
        #expect(!lines[1].code.contains("fatal"))
        #expect(lines[2].code.contains("print(c)"))
        #expect(!lines[4].code.contains("import"))
    }

    @Test func whatIsInterpolatedIsCode() {
        let lines = SourceTree.codeLines(
            of: ##"""
                let a = "one \(two(3) + "four \(five) six") seven \\(eight)"; nine
                let b = #"\(one) \#(two) ""#, c = "", d = "three"
                /* one /* two */ three */ four
                """##
        )
        #expect(lines[0].code == "let a =  two(3) +  five  ; nine")
        #expect(lines[1].code == "let b =  two , c = , d = ")
        #expect(lines[2].code == " four")
    }
}
