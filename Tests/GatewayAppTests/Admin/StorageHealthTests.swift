import GatewayEvents
import GatewayHTTP
import GatewayTokens
import Testing

@Suite("Health of the files", .timeLimit(.minutes(5)))
struct StorageHealthTests {
    private func health(used: Int = 0, limit: Int = 1000 << 20) -> StorageHealth {
        StorageHealth(room: AuditRoom(usedBytes: used, limit: limit))
    }

    @Test func whatIsWellIsNotSaid() {
        let (reasons, blocks) = health().troubles(.block, rotating: ["campus"])
        #expect(reasons.isEmpty && !blocks)
    }

    @Test(arguments: AuditPlan.OnFailure.allCases)
    func anAuditLogThatFailsBlocksUnlessItMayDegrade(_ onFailure: AuditPlan.OnFailure) {
        var health = health()
        health.auditFailure = "the disk that holds it is full"
        let (reasons, blocks) = health.troubles(onFailure, rotating: [])
        #expect(blocks == (onFailure == .block))
        #expect(reasons.count == 1 && reasons[0].hasSuffix("the disk that holds it is full"))
        #expect(reasons[0].contains(onFailure == .block ? "no new token is used" : "on_failure: degrade"))
    }

    @Test func damagedPagesAreSaidAndBlockNothing() {
        var health = health()
        health.auditDamage = "usage was not written to the audit log: it is not a valid SQLite database"
        let (reasons, blocks) = health.troubles(.block, rotating: [])
        #expect(!blocks)
        #expect(reasons == ["usage was not written to the audit log: it is not a valid SQLite database"])
    }

    @Test func inTheReserveItSaysWhatIsNotRecordedAndBlocksNothing() {
        let (reasons, blocks) = health(used: 950 << 20).troubles(.block, rotating: [])
        #expect(!blocks)
        #expect(reasons.count == 1)
        #expect(reasons[0].contains("failed requests, denials and uses are no longer recorded"))
        #expect(reasons[0].contains("950 MiB of 1000MiB (audit.max_bytes)") && reasons[0].contains("audit.retention"))
    }

    @Test func aBrokenChainIsSaidAndBlocksNothing() {
        var health = health()
        health.auditBreach = "row 7 was changed after it was written"
        let (reasons, blocks) = health.troubles(.block, rotating: [])
        #expect(!blocks && reasons.count == 1)
        #expect(reasons[0].contains("row 7 was changed") && reasons[0].contains("authgateway audit verify"))
    }

    @Test func aFullLogBlocks() {
        let (reasons, blocks) = health(used: 990 << 20).troubles(.block, rotating: [])
        #expect(blocks && reasons[0].contains("is full, so no new token is used"))
        #expect(!health(used: 990 << 20).troubles(.degrade, rotating: []).blocks)
    }

    @Test func aLossAndWhatWaitsAreSaidAndBlockNothing() {
        var health = health()
        health.auditLoss = StorageHealth.Loss(lostTo: 41, at: UnixTime(milliseconds: 0))
        health.unrecorded = 2
        let (reasons, blocks) = health.troubles(.block, rotating: [])
        #expect(!blocks && reasons.count == 2)
        #expect(reasons[0] == "2 operator events have not reached the audit log yet")
        #expect(reasons[1].contains("created again at 1970-01-01T00:00:00.000Z: rows up to 41 are lost"))
    }

    @Test(arguments: [(false, AuditPlan.OnFailure.block), (true, .block), (true, .degrade)])
    func eventsThatWaitForTheDatabaseBlockOnlyWhereItIsRequired(_ isRequired: Bool, _ onFailure: AuditPlan.OnFailure) {
        var health = health()
        let failure = AuditShipping.Failure(since: UnixTime(milliseconds: 0), reason: "the server is away")
        health.unshipped = AuditShipping(unshipped: 7, failure: failure, isRequired: isRequired)
        let (reasons, blocks) = health.troubles(onFailure, rotating: [])
        #expect(blocks == (isRequired && onFailure == .block))
        #expect(reasons.count == 1 && reasons[0].contains("7 events wait") && reasons[0].contains("the server is away"))
    }

    @Test func aKeyThatIsGoneIsSaidBeforeTheNextStartNeedsIt() {
        var health = health()
        health.missingKey = "/state/token.key"
        let (reasons, blocks) = health.troubles(.block, rotating: [])
        #expect(!blocks && reasons.count == 1)
        #expect(reasons[0].hasPrefix("the installation key /state/token.key is gone; put it back."))
    }

    @Test func aTokenStoreThatFailsBlocksWhereItIsNeeded() {
        var health = health()
        health.tokenFailure = "it does not answer"
        #expect(!health.troubles(.block, rotating: []).blocks)
        let (reasons, blocks) = health.troubles(.block, rotating: ["campus"])
        #expect(blocks)
        #expect(reasons == ["the token store cannot be written, so campus cannot be renewed: it does not answer"])
    }
}
