import GatewayConfiguration
import Testing

@testable import GatewayTools

@Suite("The environment of a program that exec runs", .timeLimit(.minutes(5)))
struct ProgramVariablesTests {
    private static let own = ["PATH": "/bin", "HOME": "/h", "API_KEY": "a", "OTHER": "b", "BOX": "c"]

    @Test func variablesWithSecretsAreWithheldAndNamed() {
        let given = ProgramVariables(Self.own, without: ["BOX", "API_KEY", "UNSET"], keeping: [])
        #expect(given.variables == ["PATH": "/bin", "HOME": "/h", "OTHER": "b"])
        #expect(given.withheld == ["API_KEY", "BOX"])
        #expect(given.notice?.contains("reads secrets from them: API_KEY, BOX (--keep-env NAME") == true)
    }

    @Test func whatIsKeptAndWhatEveryProgramNeedsIsNot() {
        let given = ProgramVariables(Self.own, without: ["BOX", "HOME"], keeping: ["BOX"])
        #expect(given.variables == Self.own && given.withheld == [] && given.notice == nil)
    }

    @Test func secretVariablesAreFoundAnywhereInADocument() throws {
        let text = """
            credentials:
              env: {strategy: bearer, token: {env: ONE}}
              two: {strategy: bearer, token: [{env: TWO}, {file: x}]}
              three: {strategy: bearer, token: {exec: [a], environment: {A: {env: THREE}, env: {env: FOUR}}}}
            """
        let root = try #require(YAMLLoader().load(Array(text.utf8)).root)
        #expect(root.secretVariables == ["ONE", "TWO", "THREE", "FOUR"])
    }
}
