import GatewayCore
import Testing

@Suite("Memory of uploads", .timeLimit(.minutes(5)))
struct UploadMemoryTests {
    @Test func aClientHoldsNoMoreThanItMay() {
        let memory = UploadMemory(limit: 100)
        #expect(memory.change(of: "a", by: 60) && memory.change(of: "a", by: 40))
        #expect(!memory.change(of: "a", by: 1) && memory.bytes(of: "a") == 100)
        #expect(memory.change(of: "a", by: -1) && memory.change(of: "a", by: 1))
    }

    @Test func eachClientHasItsOwnAndThoseWithoutANameShareOne() {
        let memory = UploadMemory(limit: 100)
        #expect(memory.change(of: "a", by: 100) && memory.change(of: "b", by: 100) && memory.change(of: nil, by: 100))
        #expect(!memory.change(of: nil, by: 1) && !memory.change(of: "b", by: 1))
        for client in ["a", "b", nil] { #expect(memory.change(of: client, by: -100) && memory.bytes(of: client) == 0) }
    }

    @Test func halfOfItIsKeptFromReadingAhead() {
        let memory = UploadMemory(limit: 100)
        #expect(memory.allowsReadingAhead(for: "a"))
        #expect(memory.change(of: "a", by: 49) && memory.allowsReadingAhead(for: "a"))
        #expect(memory.change(of: "a", by: 1) && !memory.allowsReadingAhead(for: "a"))
        #expect(memory.allowsReadingAhead(for: nil))
    }

    @Test func aLowerLimitTakesNothingBack() {
        let memory = UploadMemory(limit: 100)
        #expect(memory.change(of: "a", by: 80))
        memory.setLimit(50)
        #expect(!memory.change(of: "a", by: 1) && memory.change(of: "a", by: -10) && !memory.change(of: "a", by: 1))
        #expect(memory.change(of: "a", by: -60) && memory.change(of: "a", by: 40))
        #expect(
            memory.problem.kind == .clientLimitReached && memory.problem.detail.contains("limits.upload_memory: 50")
        )
    }
}
