import GatewayTokens
import Testing

@testable import GatewayProxy

@Suite("The beginning of a body that is judged", .timeLimit(.minutes(5)))
struct BodyInspectionTests {
    private static let limit = RejectionRule.bodyLimit

    private static func chunk(_ content: some Collection<UInt8>, framing: Int, _ inspection: inout BodyInspection) {
        inspection.receive(content: content)
        inspection.receive(bytes: content.count + framing)
    }

    @Test func framingDoesNotCount() {
        var inspection = BodyInspection(waitingLimit: 8 * Self.limit)
        for number in 1...Self.limit {
            #expect(!inspection.isEnough)
            Self.chunk([UInt8(truncatingIfNeeded: number)], framing: 5, &inspection)
        }
        #expect(inspection.isEnough)
        #expect(inspection.content.count == Self.limit && inspection.content.last == 0)
    }

    @Test func noMoreIsKeptThanIsLookedAt() {
        var inspection = BodyInspection(waitingLimit: 8 * Self.limit)
        for part in [Self.limit - 1, 2, 10] { Self.chunk([UInt8](repeating: 1, count: part), framing: 0, &inspection) }
        #expect(inspection.isEnough && inspection.content.count == Self.limit)
    }

    @Test func aBodyThatIsMostlyFramingDoesNotWaitForEver() {
        var inspection = BodyInspection(waitingLimit: 1000)
        Self.chunk([1], framing: 998, &inspection)
        #expect(!inspection.isEnough)
        Self.chunk([2], framing: 0, &inspection)
        #expect(inspection.isEnough && inspection.content == [1, 2])
    }

    @Test func theEndIsEnough() {
        var inspection = BodyInspection(waitingLimit: 1000)
        #expect(!inspection.isEnough)
        inspection.end()
        #expect(inspection.isEnough && inspection.content.isEmpty)
    }
}
