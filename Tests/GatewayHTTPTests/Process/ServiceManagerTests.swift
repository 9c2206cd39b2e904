import Testing

@testable import GatewayHTTP

@Suite("Service manager", .timeLimit(.minutes(5)))
struct ServiceManagerTests {
    private func manager(_ environment: [String: String]) -> ServiceManager? {
        ServiceManager(environment: environment, process: 42)
    }

    @Test func theSocketIsAPathOrAnAbstractName() {
        #expect(manager(["NOTIFY_SOCKET": "/run/n"])?.socket == Array("/run/n".utf8))
        #expect(manager(["NOTIFY_SOCKET": "@name"])?.socket == [0] + Array("name".utf8))
    }

    @Test(arguments: [nil, "", "/", "@", "run/n", "vsock:2:1234", "/" + String(repeating: "x", count: 107)])
    func otherSocketsAreNotTold(_ socket: String?) {
        #expect(manager(socket.map { ["NOTIFY_SOCKET": $0] } ?? [:]) == nil)
    }

    struct Watchdog: CustomTestStringConvertible {
        let limit: String?
        let process: String?
        let interval: Duration?

        var testDescription: String { "\(limit ?? "none") for \(process ?? "everybody")" }
    }

    @Test(
        "the watchdog is told twice within its limit",
        arguments: [
            Watchdog(limit: "30000000", process: nil, interval: .seconds(15)),
            Watchdog(limit: "30000000", process: "42", interval: .seconds(15)),
            Watchdog(limit: "30000000", process: "43", interval: nil),
            Watchdog(limit: "30000000", process: "", interval: nil),
            Watchdog(limit: nil, process: "42", interval: nil),
            Watchdog(limit: "0", process: nil, interval: nil),
            Watchdog(limit: "-5", process: nil, interval: nil),
            Watchdog(limit: "soon", process: nil, interval: nil),
        ]
    )
    func theWatchdogIsToldTwiceWithinItsLimit(_ example: Watchdog) {
        var environment = ["NOTIFY_SOCKET": "/run/n"]
        environment["WATCHDOG_USEC"] = example.limit
        environment["WATCHDOG_PID"] = example.process
        #expect(manager(environment)?.watchdogInterval == example.interval)
    }

    @Test func theLengthOfASocketPathIsLimited() {
        let longest = "/" + String(repeating: "x", count: ServiceManager.maximumBytes - 1)
        #expect(manager(["NOTIFY_SOCKET": longest])?.socket == Array(longest.utf8))
        #expect(manager(["NOTIFY_SOCKET": longest + "x"]) == nil)
    }
}

@Suite("Passed descriptors", .timeLimit(.minutes(1)))
struct PassedDescriptorsTests {
    private func range(_ process: String?, _ count: String?) -> Range<Int32> {
        var environment: [String: String] = [:]
        environment["LISTEN_PID"] = process
        environment["LISTEN_FDS"] = count
        return PassedDescriptors.range(environment: environment, process: 42)
    }

    @Test func theyBeginWithTheThird() {
        #expect(range("42", "1") == 3..<4)
        #expect(range("42", "64") == 3..<67)
    }

    @Test(arguments: [
        ("43", "1"), ("", "1"), ("42", "0"), ("42", "-1"), ("42", "65"), ("42", "2147483647"), ("42", "x"),
    ])
    func whatIsNotForThisProcessOrNoNumberCountsAsNone(_ process: String, _ count: String) {
        #expect(range(process, count).isEmpty)
    }

    @Test func withoutTheVariablesThereAreNone() {
        #expect(range(nil, nil).isEmpty)
        #expect(range("42", nil).isEmpty)
    }
}

@Suite("Hang-up", .timeLimit(.minutes(5)))
struct HangUpRuleTests {
    @Test(
        "only a closed terminal ends the gateway",
        arguments: [
            (hadTerminal: true, terminalIsGone: true, action: HangUpRule.Action.stop),
            (hadTerminal: true, terminalIsGone: false, action: .reload),
            (hadTerminal: false, terminalIsGone: true, action: .reload),
            (hadTerminal: false, terminalIsGone: false, action: .reload),
        ]
    )
    func onlyAClosedTerminalEndsTheGateway(hadTerminal: Bool, terminalIsGone: Bool, action: HangUpRule.Action) {
        let rule = HangUpRule(wasIgnored: false, hadTerminal: hadTerminal)
        #expect(rule.isHandled)
        #expect(rule.action(terminalIsGone: terminalIsGone) == action)
    }

    @Test(arguments: [false, true])
    func anInheritedIgnoreStays(hadTerminal: Bool) {
        #expect(!HangUpRule(wasIgnored: true, hadTerminal: hadTerminal).isHandled)
    }
}

@Suite("Peers of unix sockets", .timeLimit(.minutes(5)))
struct PeerUserRuleTests {
    @Test func ourOwnUserAndThoseThatAreListedMayConnect() {
        for mapsAllUsers in [true, false] {
            let admits = { PeerUserRule.admits($0, own: 1000, allowed: [0, 7], mapsAllUsers: mapsAllUsers) }
            #expect([1000, 0, 7].allSatisfy { admits($0) })
            #expect(!admits(8))
        }
    }

    /// Every user whom the namespace does not know has this number there.
    @Test func theNumberOfUnknownUsersIsNobodysInANamespace() {
        let admits = { (own: UInt32, allowed: [UInt32], mapsAllUsers: Bool) in
            PeerUserRule.admits(65_534, own: own, allowed: allowed, mapsAllUsers: mapsAllUsers)
        }
        #expect(admits(1000, [65_534], true))
        #expect(!admits(1000, [65_534], false))
        #expect(!admits(65_534, [7], false))
        // The mode of the socket lets in nobody else.
        #expect(admits(65_534, [], false))
    }

    @Test(arguments: [
        (map: "         0          0 4294967295\n", mapsAllUsers: true),
        (map: "0 1000 1\n1 100000 65536\n", mapsAllUsers: false),
        (map: "0 0 1\n1000 1000 1\n", mapsAllUsers: false),
        (map: "", mapsAllUsers: false),
        (map: nil, mapsAllUsers: true),
    ])
    func aMapOfTheWholeRangeKnowsEverybody(map: String?, mapsAllUsers: Bool) {
        #expect(PeerUserRule.mapsAllUsers(map) == mapsAllUsers)
    }
}
