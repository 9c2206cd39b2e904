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
