import GatewayHTTP
import Testing

@Suite("Environment of programs", .timeLimit(.minutes(5)))
struct ProgramEnvironmentTests {
    @Test func programsAreGivenWhatProgramsNeedAndNothingElse() {
        let variables = ["PATH": "/bin", "HOME": "/home/ada", "BOX_CLIENT_SECRET": "x", "LD_PRELOAD": "y", "path": "z"]
        #expect(ProgramEnvironment.inherited(from: variables) == ["PATH": "/bin", "HOME": "/home/ada"])
    }
}
