import GatewayEvents
import GatewayHTTP
import Testing

@testable import GatewayTokens

/// Where a test names no path.
extension SigningSessions {
    fileprivate func take(_ path: String = "/page") -> Turn { take(for: Array(path.utf8)) }

    fileprivate func answer(_ challenges: [AuthChallenge], to turn: Turn, at path: String = "/page") -> Turn? {
        answer(challenges, to: turn, for: Array(path.utf8))
    }
}

/// Signs with the nonce of a challenge: `nonce count`.
private struct SampleSession: SigningSession {
    let nonce: String
    let realm: String
    let isStale: Bool

    func sign(_ request: SignableRequest, number: UInt32) -> RequestSignature {
        RequestSignature(fields: [Injection.Field(name: "Authorization", value: Secret("\(nonce) \(number)"))])
    }

    func next(after info: [UInt8]) -> (any SigningSession)? {
        info.isEmpty ? nil : SampleSession(nonce: String(decoding: info, as: UTF8.self), realm: realm, isStale: false)
    }
}

private struct SampleSigner: ChallengeSigner {
    let identity = GrantIdentity(strategy: "sample", subject: nil)

    func session(answering challenges: [AuthChallenge], clientNonce: String) -> (any SigningSession)? {
        guard let parameters = challenges.first?.parameters, let nonce = parameters["nonce"] else { return nil }
        return SampleSession(
            nonce: nonce,
            realm: parameters["realm"] ?? "",
            isStale: parameters["stale"] == "true"
        )
    }
}

@Suite("Sessions of signatures", .timeLimit(.minutes(1)))
struct SigningSessionsTests {
    private typealias Turn = SigningSessions.Turn

    private static func challenge(_ nonce: String, realm: String = "r", isStale: Bool = false) -> [AuthChallenge] {
        [AuthChallenge(scheme: "sample", parameters: ["nonce": nonce, "realm": realm, "stale": "\(isStale)"])]
    }

    /// What a request of this turn is sent with; nil for a request that stays refused, and empty for an unsigned one.
    private static func sent(_ turn: Turn?) -> String? {
        switch turn {
        case nil: return nil
        case .unsigned?: return ""
        case .signed(let slot)?:
            let request = SignableRequest(
                method: "GET",
                path: [0x2F],
                query: nil,
                isTLS: false,
                host: "a",
                fields: [],
                added: [],
                hasBody: false,
                time: UnixTime(seconds: 0)
            )
            return slot.sign(request).fields.first?.value.withValue { $0 }
        }
    }

    /// Sessions whose upstream has accepted this nonce once.
    private static func used(_ nonce: String = "a") throws -> SigningSessions {
        let sessions = SigningSessions(SampleSigner())
        let turn = try #require(sessions.answer(challenge(nonce), to: .unsigned))
        #expect(sent(turn) == "\(nonce) 1")
        sessions.answered(turn, isAccepted: true, info: nil)
        return sessions
    }

    @Test func aSessionIsSharedOnceTheUpstreamHasAcceptedIt() throws {
        let sessions = SigningSessions(SampleSigner())
        #expect(Self.sent(sessions.take()) == "")
        let first = try #require(sessions.answer(Self.challenge("a"), to: .unsigned))
        let second = try #require(sessions.answer(Self.challenge("b"), to: .unsigned))
        #expect(Self.sent(first) == "a 1" && Self.sent(second) == "b 1")
        #expect(Self.sent(sessions.take()) == "", "neither is accepted")
        sessions.answered(second, isAccepted: true, info: nil)
        sessions.answered(first, isAccepted: true, info: nil)
        #expect((2...4).map { _ in Self.sent(sessions.take()) } == ["b 2", "b 3", "b 4"])
    }

    @Test func aResponseThatProvesNothingSharesNothing() throws {
        let sessions = SigningSessions(SampleSigner())
        let turn = try #require(sessions.answer(Self.challenge("a"), to: .unsigned))
        sessions.answered(turn, isAccepted: false, info: Array("b".utf8))
        sessions.answered(.unsigned, isAccepted: true, info: Array("b".utf8))
        #expect(Self.sent(sessions.take()) == "")
    }

    @Test func aWrongPasswordIsSentOnce() throws {
        let sessions = SigningSessions(SampleSigner())
        for nonce in ["a", "b"] {
            let turn = try #require(sessions.answer(Self.challenge(nonce), to: sessions.take()))
            #expect(sessions.answer(Self.challenge("other"), to: turn) == nil)
        }
    }

    @Test func aStaleSessionIsReplacedAndTheNewOneIsShared() throws {
        let sessions = try Self.used()
        let (one, other) = (sessions.take(), sessions.take())
        let answer = sessions.answer(Self.challenge("b", isStale: true), to: one)
        #expect(Self.sent(answer) == "b 1")
        #expect(Self.sent(sessions.take()) == "", "nobody uses what is too old")
        #expect(Self.sent(sessions.answer(Self.challenge("c", isStale: true), to: other)) == "c 1")
        sessions.answered(try #require(answer), isAccepted: true, info: nil)
        #expect(Self.sent(sessions.take()) == "b 2")
    }

    @Test func aPasswordThatIsWrongNowIsSentTwiceForOneRequestAndThenOnce() throws {
        let sessions = try Self.used()
        let turn = sessions.take()
        #expect(Self.sent(turn) == "a 2")
        // It begins anew: the session was one that others may use.
        #expect(Self.sent(sessions.answer(Self.challenge("b"), to: turn)) == "")
        let own = try #require(sessions.answer(Self.challenge("c"), to: .unsigned))
        #expect(sessions.answer(Self.challenge("d"), to: own) == nil)
        #expect(Self.sent(sessions.take()) == "")
    }

    @Test func whereOrderMattersASessionIsUsedByOneRequestAtATime() throws {
        let sessions = try Self.used()
        let (one, other) = (sessions.take(), sessions.take())
        #expect(Self.sent(sessions.answer(Self.challenge("b"), to: other)) == "")
        sessions.answered(one, isAccepted: true, info: nil)
        #expect(Self.sent(sessions.take()) == "", "who else uses the old one is not known")
        let turns = try ["c", "d"].map { try #require(sessions.answer(Self.challenge($0), to: .unsigned)) }
        #expect(turns.map(Self.sent) == ["c 1", "d 1"])
        for turn in turns { sessions.answered(turn, isAccepted: true, info: nil) }
        let next = [sessions.take(), sessions.take(), sessions.take()]
        #expect(next.map(Self.sent) == ["d 2", "c 2", ""])
        // Any response gives a session back, but for one that was not accepted yet.
        sessions.answered(next[1], isAccepted: false, info: nil)
        #expect(Self.sent(sessions.take()) == "c 3")
        #expect(Self.sent(sessions.take()) == "")
        // One that nobody shared is answered at once.
        #expect(Self.sent(sessions.answer(Self.challenge("e"), to: next[0])) == "e 1")
    }

    @Test func aWrongPasswordEndsTheSessionsThatItWasRightFor() throws {
        let sessions = try Self.used()
        #expect(Self.sent(sessions.answer(Self.challenge("b"), to: sessions.take())) == "")
        let turns = try ["c", "d"].map { try #require(sessions.answer(Self.challenge($0), to: .unsigned)) }
        sessions.answered(turns[0], isAccepted: true, info: nil)
        #expect(sessions.answer(Self.challenge("e"), to: turns[1]) == nil)
        #expect(Self.sent(sessions.take()) == "")
    }

    @Test func theNextNonceIsUsedAtOnce() throws {
        let sessions = try Self.used()
        sessions.answered(sessions.take(), isAccepted: true, info: Array("b".utf8))
        #expect((1...2).map { _ in Self.sent(sessions.take()) } == ["b 1", "b 2"])
    }

    @Test func noncesForOneRequestAreNotShared() throws {
        let sessions = try Self.used()
        let (one, other) = (sessions.take(), sessions.take())
        sessions.answered(one, isAccepted: true, info: Array("b".utf8))
        #expect(Self.sent(sessions.answer(Self.challenge("c", isStale: true), to: other)) == "")
        let own = try #require(sessions.answer(Self.challenge("d"), to: .unsigned))
        sessions.answered(own, isAccepted: true, info: Array("e".utf8))
        let turn = sessions.take()
        #expect(Self.sent(turn) == "e 1")
        #expect(Self.sent(sessions.take()) == "")
        sessions.answered(turn, isAccepted: true, info: Array("f".utf8))
        #expect(Self.sent(sessions.take()) == "f 1")
    }

    @Test func aSessionThatIsTooOldFromTheBeginningWasUsedUpByAnotherRequest() throws {
        let sessions = SigningSessions(SampleSigner())
        let turn = try #require(sessions.answer(Self.challenge("a"), to: .unsigned))
        #expect(Self.sent(sessions.answer(Self.challenge("b", isStale: true), to: turn)) == "")
        let next = try ["c", "d"].map { try #require(sessions.answer(Self.challenge($0), to: .unsigned)) }
        for turn in next { sessions.answered(turn, isAccepted: true, info: nil) }
        #expect([sessions.take(), sessions.take(), sessions.take()].map(\.isSigned) == [true, true, false])
    }

    @Test func aChallengeThatCannotBeAnsweredSaysNothingAboutTheSession() throws {
        let sessions = try Self.used()
        for number in 2...3 {
            let turn = sessions.take()
            #expect(Self.sent(turn) == "a \(number)")
            #expect(sessions.answer([], to: turn) == nil)
        }
        #expect(sessions.answer([], to: .unsigned) == nil)
    }

    @Test func anAnswerThatCannotBeSentIsForTheNextRequestAlone() throws {
        let sessions = SigningSessions(SampleSigner())
        sessions.leaveToNext(try #require(sessions.answer(Self.challenge("a"), to: .unsigned)))
        sessions.leaveToNext(.unsigned)
        let turn = sessions.take()
        #expect(Self.sent(turn) == "a 1")
        #expect(Self.sent(sessions.take()) == "")
        #expect(sessions.answer(Self.challenge("b"), to: turn) == nil, "nothing says that the password is right")
    }

    @Test func idleSessionsAreLimited() throws {
        let sessions = try Self.used()
        #expect(Self.sent(sessions.answer(Self.challenge("b"), to: sessions.take())) == "")
        for number in 0...SigningSessions.maximumIdle {
            let turn = try #require(sessions.answer(Self.challenge("n\(number)"), to: .unsigned))
            sessions.answered(turn, isAccepted: true, info: nil)
        }
        let kept = (0...SigningSessions.maximumIdle).map { _ in sessions.take() }
        #expect(kept.filter(\.isSigned).count == SigningSessions.maximumIdle)
        #expect(Self.sent(kept[0]) == "n\(SigningSessions.maximumIdle) 1", "the last one first")
    }

    // MARK: Realms

    /// Has a request for this path challenged by a realm and then accepted.
    private static func learn(
        _ path: String,
        _ realm: String,
        _ nonce: String,
        as turn: Turn = .unsigned,
        in sessions: SigningSessions
    ) throws {
        let turn = try #require(sessions.answer(challenge(nonce, realm: realm), to: turn, at: path))
        #expect(sent(turn) == "\(nonce) 1")
        sessions.answered(turn, isAccepted: true, info: nil)
    }

    @Test func eachRealmHasItsOwnSession() throws {
        let sessions = SigningSessions(SampleSigner())
        try Self.learn("/a/page", "A", "a", in: sessions)
        let turn = sessions.take("/b/page")
        #expect(Self.sent(turn) == "a 2", "one realm is taken for the whole upstream")
        try Self.learn("/b/page", "B", "b", as: turn, in: sessions)
        for number in 2...4 {
            #expect(Self.sent(sessions.take("/b/other")) == "b \(number)")
            #expect(Self.sent(sessions.take("/a/deep/page")) == "a \(number + 1)", "the session is shared as before")
        }
        #expect(Self.sent(sessions.take("/c")) == "", "nothing says which realm it is in")
    }

    @Test(arguments: [
        ("/", "a"), ("/page", "a"), ("/other", "a"), ("/b", "b"), ("/b/", "b"), ("/b/x/y", "b"), ("/b/x/a", "a"),
        ("/bb", "a"),
    ])
    func theLongestKnownPathCounts(_ path: String, _ nonce: String) throws {
        let sessions = SigningSessions(SampleSigner())
        for (path, realm) in [("/b/x/a", "A"), ("/b", "B"), ("/b/x/c", "B"), ("/b/", "B"), ("/page", "A")] {
            try Self.learn(path, realm, realm.lowercased(), in: sessions)
        }
        #expect(Self.sent(sessions.take(path))?.hasPrefix("\(nonce) ") == true)
    }

    @Test func aRealmThatTakesThePlaceOfAnotherIsLearned() throws {
        let sessions = SigningSessions(SampleSigner())
        for realm in ["A", "B", "C"] {
            try Self.learn("/page", realm, realm, as: sessions.take(), in: sessions)
            #expect(Self.sent(sessions.take("/other")) == "\(realm) 2")
            #expect(Self.sent(sessions.take("/page")) == "\(realm) 3")
        }
    }

    @Test func orderMattersOnlyInTheRealmThatCountsSo() throws {
        let sessions = SigningSessions(SampleSigner())
        try Self.learn("/a/page", "A", "a", in: sessions)
        try Self.learn("/b/page", "B", "b", in: sessions)
        let turn = sessions.take("/b/page")
        #expect(Self.sent(sessions.answer(Self.challenge("b2", realm: "B"), to: turn, at: "/b/page")) == "")
        #expect((0..<2).map { _ in sessions.take("/a/page").isSigned } == [true, true])
        try Self.learn("/b/page", "B", "b3", in: sessions)
        #expect((0..<2).map { _ in sessions.take("/b/page").isSigned } == [true, false])
    }

    @Test func aWrongPasswordOfOneRealmEndsNoSessionOfAnother() throws {
        let sessions = SigningSessions(SampleSigner())
        try Self.learn("/a/page", "A", "a", in: sessions)
        for path in ["/b/page", "/b/page", "/b/other"] {
            let answer = sessions.answer(Self.challenge("b", realm: "B"), to: sessions.take(path), at: path)
            let turn = try #require(answer)
            #expect(sessions.answer(Self.challenge("c", realm: "B"), to: turn, at: path) == nil)
            #expect(Self.sent(sessions.take(path)) == "", "it is not tried again at once")
        }
        #expect(sessions.take("/a/page").isSigned)
    }

    @Test func realmsThatNeverAcceptAreAnsweredOnceForARequest() throws {
        let sessions = SigningSessions(SampleSigner())
        let turn = try #require(sessions.answer(Self.challenge("a", realm: "A"), to: .unsigned))
        #expect(sessions.answer(Self.challenge("b", realm: "B"), to: turn) == nil)
    }

    @Test func anAnswerThatCannotBeSentIsForItsOwnPathsAlone() throws {
        let sessions = SigningSessions(SampleSigner())
        let turn = sessions.answer(Self.challenge("a", realm: "A"), to: .unsigned, at: "/a/page")
        sessions.leaveToNext(try #require(turn))
        #expect(Self.sent(sessions.take("/b/page")) == "")
        #expect(Self.sent(sessions.take("/a/other")) == "a 1")
    }

    @Test func realmsAreLimited() throws {
        let sessions = SigningSessions(SampleSigner())
        for number in 0...SigningSessions.maximumRealms {
            try Self.learn("/\(number)/page", "realm \(number)", "n\(number)", in: sessions)
        }
        let known = (0...SigningSessions.maximumRealms).filter { sessions.take("/\($0)/page").isSigned }
        #expect(known == Array(1...SigningSessions.maximumRealms), "the oldest one is forgotten")
    }

    @Test func theKnownPathsOfARealmAreLimited() throws {
        let sessions = SigningSessions(SampleSigner())
        try Self.learn("/b/page", "B", "b", in: sessions)
        for number in 0..<100 { try Self.learn("/\(number)/page", "A", "a\(number)", in: sessions) }
        let known = (0..<100).filter { sessions.take("/\($0)/page").isSigned }
        #expect(known == Array(84..<100), "the path and its directory for each of the last sixteen")
        let long = "/\(String(repeating: "x", count: 2000))"
        try Self.learn("\(long)/page", "B", "b2", in: sessions)
        #expect(!sessions.take("\(long)/page").isSigned, "too long to be kept")
        #expect(sessions.take("/b/page").isSigned, "paths of one realm do not displace those of another")
    }
}
