import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Which subjects are kept", .timeLimit(.minutes(5)))
struct SubjectTableTests {
    /// Subjects are their own members.
    private struct Bench {
        var table: SubjectTable<String>
        var busy: Set<String> = []
        var withoutToken: Set<String> = []

        init(limit: Int) { table = SubjectTable(limit: limit) }

        /// What became of it: `known`, `new`, `new for b`, `full`.
        @discardableResult
        mutating func use(_ subject: String, by client: String? = nil) -> String {
            use(subject, as: .client(client))
        }

        @discardableResult
        mutating func use(_ subject: String, as asker: SubjectTable<String>.Asker) -> String {
            let (busy, withoutToken) = (busy, withoutToken)
            let use = table.use(
                subject,
                by: asker,
                state: { busy.contains($0) ? .busy : .idle(hadToken: !withoutToken.contains($0)) },
                make: { subject }
            )
            switch use {
            case .known(let member): return member == subject ? "known" : "wrong"
            case .new(_, let dropped): return dropped.map { "new for \($0)" } ?? "new"
            case .full: return "full"
            }
        }

        mutating func use(_ subjects: [String], by client: String? = nil) {
            for subject in subjects { use(subject, by: client) }
        }
    }

    @Test func theOneNotNamedLongestMakesRoom() {
        var bench = Bench(limit: 2)
        #expect(["a", "b", "a", "c"].map { bench.use($0) } == ["new", "new", "known", "new for b"])
        #expect(bench.table.members == ["a", "c"])
        #expect(bench.table.count == 2)
    }

    @Test func toLookIsNoUse() {
        var bench = Bench(limit: 2)
        bench.use(["a", "b"])
        #expect(bench.table["a"] == "a")
        #expect(bench.table["c"] == nil)
        #expect(bench.use("c") == "new for a")
    }

    @Test func whoIsBusyStays() {
        var bench = Bench(limit: 2)
        bench.use(["a", "b"])
        bench.busy = ["a"]
        #expect(bench.use("c") == "new for b")
        bench.busy = ["a", "c"]
        #expect(bench.use("d") == "full")
        #expect(bench.table.members == ["a", "c"])
    }

    @Test func whoNeverHadATokenGoesFirst() {
        var bench = Bench(limit: 3)
        bench.use(["old", "live", "invented"])
        bench.withoutToken = ["invented", "another"]
        #expect(bench.use("another") == "new for invented")
        #expect(bench.use("third") == "new for another")
        #expect(bench.use("fourth") == "new for old")
    }

    // MARK: The operator

    @Test func theOperatorReachesEverySubject() {
        var bench = Bench(limit: 1)
        bench.use("b", by: "portal")
        #expect(bench.use("b", as: .operator) == "known")
        #expect(bench.use("a", as: .operator) == "new for b")
        #expect(bench.use("b", as: .operator) == "new for a")
        bench.busy = ["b"]
        #expect(bench.use("a", as: .operator) == "full")
    }

    @Test func whatTheOperatorNamedCountsForNoClient() {
        var bench = Bench(limit: 3)
        bench.use("a", by: "portal")
        for subject in ["b", "c"] { bench.use(subject, as: .operator) }
        #expect(bench.use("d") == "new for b")
        #expect(bench.use("e", by: "portal") == "new for c")
        #expect(bench.use("f", as: .operator) == "new for a", "of the client with the most")
    }

    // MARK: Clients

    /// The victim named one subject and does not come back for a long time.
    @Test(arguments: [true, false])
    func inventedSubjectsOfAClientPushOutItsOwn(haveTokens: Bool) {
        var bench = Bench(limit: 4)
        bench.use("victim", by: "portal")
        for number in 0..<100 {
            if !haveTokens { bench.withoutToken.insert("i\(number)") }
            bench.use("i\(number)", by: "hostile")
        }
        #expect(bench.table["victim"] == "victim")
        #expect(bench.table.members == ["i97", "i98", "i99", "victim"])
    }

    @Test func aClientAloneHasAllOfIt() {
        var bench = Bench(limit: 4)
        bench.use(["a", "b", "c", "d", "e"], by: "portal")
        #expect(bench.table.members == ["b", "c", "d", "e"])
    }

    @Test func anotherClientGetsItsShareFromTheOneWithTheMost() {
        var bench = Bench(limit: 4)
        bench.use(["a", "b", "c", "d"], by: "portal")
        #expect(bench.use("1", by: "other") == "new for a")
        #expect(bench.use("2", by: "other") == "new for b")
        #expect(bench.use("3", by: "other") == "new for 1", "both have two: it has to do with its own")
        #expect(bench.use("e", by: "portal") == "new for c")
        #expect(bench.table.members == ["2", "3", "d", "e"])
    }

    @Test func aClientThatComesLastGetsOne() {
        var bench = Bench(limit: 3)
        bench.use(["a", "b"], by: "one")
        bench.use("c", by: "two")
        #expect(bench.use("d", by: "three") == "new for a", "of the one with the most")
        bench.busy = ["b", "c"]
        #expect(bench.use("e", by: "four") == "new for d", "more clients than places take turns")
    }

    @Test func oneThatNeverHadATokenGoesWhoeverNamedIt() {
        var bench = Bench(limit: 2)
        bench.withoutToken = ["refused"]
        bench.use("live", by: "portal")
        bench.use("refused", by: "hostile")
        #expect(bench.use("next", by: "portal") == "new for refused")
    }

    @Test func ofThoseTheOwnGoBeforeOthers() {
        var bench = Bench(limit: 3)
        bench.withoutToken = ["starting", "i1", "i2", "i3"]
        bench.use("starting", by: "portal")
        bench.use(["i1", "i2", "i3"], by: "hostile")
        #expect(bench.table.members == ["i2", "i3", "starting"])
    }

    /// Otherwise a client could name another's subject and then have it make room.
    @Test func aSubjectOfTwoClientsIsAsSafeAsTheOneWithFewerMakesIt() {
        var bench = Bench(limit: 3)
        bench.use("victim", by: "portal")
        bench.use("victim", by: "hostile")
        for number in 0..<20 { bench.use("i\(number)", by: "hostile") }
        #expect(bench.table.members == ["i18", "i19", "victim"])
    }

    @Test func whoMadeRoomCountsNoMore() {
        var bench = Bench(limit: 2)
        bench.use(["a", "b", "c", "d"], by: "one")
        #expect(bench.use("x", by: "two") == "new for c")
        #expect(bench.use("y", by: "two") == "new for x", "each has one")
    }

    @Test func thoseWithoutANameAreOneClient() {
        var bench = Bench(limit: 3)
        bench.use("victim", by: "portal")
        bench.use(["a", "b", "c", "d"])
        #expect(bench.table.members == ["c", "d", "victim"])
    }

    /// Whatever is named: a client that keeps to its share loses nothing to others.
    @Test func nobodyLosesWithinTheShare() {
        var random = SplitMix(seed: 1)
        for _ in 0..<200 {
            let limit = Int.random(in: 2...12, using: &random)
            var bench = Bench(limit: limit)
            let share = (0..<(limit / 2)).map { "v\($0)" }
            bench.use(share, by: "portal")
            for _ in 0..<100 { bench.use("i\(Int.random(in: 0..<50, using: &random))", by: "hostile") }
            #expect(share.allSatisfy { bench.table[$0] != nil }, "limit \(limit)")
            #expect(bench.table.count <= limit)
        }
    }
}
