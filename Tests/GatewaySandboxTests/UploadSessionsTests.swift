import Testing

@testable import GatewaySandbox

@Suite("Chunked uploads under way", .timeLimit(.minutes(1)))
struct UploadSessionsTests {
    @Test func theirNumberIsLimitedUntilOneEnds() {
        var sessions = UploadSessions()
        let session = UploadSessions.Session(fileName: "a", fileSize: 1)
        let begun = (0...UploadSessions.maximumSessions).map { sessions.begin(session, id: "\($0)") }
        #expect(begun.dropLast().allSatisfy { $0 } && begun.last == false)
        let (ended, another) = (sessions.end("1"), sessions.begin(session, id: "another"))
        #expect(ended != nil && another)
    }
}
