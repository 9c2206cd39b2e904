import GatewayHTTP
import Testing

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
