import Testing

@testable import GatewayApp
@testable import GatewayTools

@Suite("Build record", .timeLimit(.minutes(1)))
struct BuildRecordTests {
    @Test func aRecordIsRead() {
        let record = BuildRecord(
            #"{"commit":"abc","commit_date":"2026-11-26T06:09:05Z","toolchain":"swift-6.3.1","target":"x","profile":true}"#
        )
        #expect(record.commit == "abc")
        #expect(record.commitDate == "2026-11-26T06:09:05Z")
        #expect(record.toolchain == "swift-6.3.1")
        #expect(record.target == "x")
        #expect(record.profile == true)
    }

    @Test(arguments: ["", "{", "[]", "{\"commit\":1}"])
    func whatIsNoRecordCountsAsNone(_ text: String) {
        #expect(BuildRecord(text) == BuildRecord())
    }

    @Test func aBuildThatIsNoReleaseHasNone() throws {
        #expect(BuildRecord.current == BuildRecord())
        let json = try JSONText.pretty(VersionReport())
        #expect(json.contains(#""version" : "\#(GatewayVersion.current)""#))
        #expect(!json.contains("commit"))
    }
}
