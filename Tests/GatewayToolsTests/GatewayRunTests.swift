import ArgumentParser
import Testing

@testable import GatewayTools

@Suite("The command run", .timeLimit(.minutes(1)))
struct GatewayRunTests {
    @Test(arguments: [
        (["run"], nil), (["run", "--config", "a.yaml"], "a.yaml"), (["run", "-c", "/b"], "/b"),
        (["run", "--strict-modes", "--config", "a"], "a"), (["run", "-c", "a", "--strict-modes"], "a"),
    ])
    func theUsualOnesAreReadWithoutTheParser(_ arguments: [String], _ file: String?) throws {
        let run = try #require(GatewayRun(usual: arguments))
        let parsed = try RunCommand.parse(Array(arguments.dropFirst()))
        #expect(run.config.file == file && parsed.config.file == file)
        #expect(run.strictModes == parsed.strictModes.isOn)
        #expect(run.sandbox == parsed.sandbox)
        #expect(run.tokenLifetime == parsed.tokens.tokenLifetime)
        #expect(run.logLevel == parsed.logLevel)
        #expect(run.accessLog == parsed.accessLog)
    }

    /// The parser knows what to say.
    @Test(arguments: [
        [], ["check"], ["--help"], ["run", "--help"], ["run", "--sandbox"], ["run", "--config"],
        ["run", "--config", ""],
        ["run", "--config", "--sandbox"], ["run", "-c", "-"], ["run", "a", "b"],
        ["run", "--config", "a", "--access-log"],
        ["run", "--config=a.yaml"], ["run", "-c", "a", "--config", "b"], ["run", "--log-level", "debug"],
        ["help", "run"],
    ])
    func everythingElseIsNot(_ arguments: [String]) {
        #expect(GatewayRun(usual: arguments) == nil)
    }
}
