import GatewayTesting
import Testing

@testable import GatewayApp
@testable import GatewayConfiguration
@testable import GatewayHTTP

@Suite("The size of a configuration", .timeLimit(.minutes(5)))
struct ConfigurationSizeTests {
    private func problems(clients: Int, limit: String?) -> [String] {
        let lines = (0..<clients).map { "    c\($0): {token_sha256: \(String(repeating: "0", count: 64))}\n" }.joined()
        let text =
            "version: 1\naccess:\n  clients:\n\(lines)routes:\n  a: {upstream: \"http://127.0.0.1:1\", auth: none}\n"
        let files = MemoryFiles(["/gateway.yaml": text])
        let loader = ConfigLoader(files: files, size: ConfigurationSize.read { _ in limit }) { _ in nil }
        let loading = loader.load("/gateway.yaml")
        guard let document = loading.document else { return loading.diagnostics.map(\.message) }
        let context = ConfigContext(document: document, secrets: UnreadSecrets())
        let root = ConfigFields(document.root, path: .root, context: context)
        _ = root?.fields("access")?.fields("clients")?.named()
        return context.diagnostics.map(\.message)
    }

    @Test func thereAreNoMoreEntriesThanTheLimit() {
        #expect(problems(clients: 3, limit: "3").isEmpty)
        let refusal = "more than 3 entries; AUTHGATEWAY_CONFIG_ENTRIES in the environment raises the limit"
        #expect(problems(clients: 4, limit: "3") == [refusal])
        #expect(problems(clients: 4, limit: nil).isEmpty)
        #expect(problems(clients: 4, limit: "").isEmpty)
    }

    @Test(arguments: ["0", "-1", "many", "1k", "10000001"]) func aLimitThatIsNoNumberIsRefused(_ text: String) {
        let problem = problems(clients: 1, limit: text).first ?? ""
        #expect(problem.hasPrefix("AUTHGATEWAY_CONFIG_ENTRIES must be a whole number"))
    }

    @Test func aFileGrowsWithTheEntries() {
        #expect(ConfigurationSize().bytes == 16 << 20)
        #expect(ConfigurationSize(entries: 100_000).bytes == 80_000_000)
        #expect(ConfigurationSize(entries: 100_000).nodes == 5_000_000)
    }
}
