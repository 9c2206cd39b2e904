import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Memory of unfinished heads", .timeLimit(.minutes(5)))
struct HeadMemoryTests {
    private final class Worker {
        private var heads: UnfinishedHeads<String>

        init(_ index: Int, _ memory: HeadMemory) { heads = UnfinishedHeads(worker: index, memory: memory) }

        func begin(_ name: String, bytes: Int, at nanoseconds: Int64) -> UnfinishedHeads<String>.Place {
            heads.begin(name, bytes: bytes, at: MonotonicTime(nanoseconds: nanoseconds))
        }

        func grow(_ place: UnfinishedHeads<String>.Place, by bytes: Int) { heads.grow(place, by: bytes) }
        func end(_ place: UnfinishedHeads<String>.Place) { heads.end(place) }

        func demand() -> String {
            switch heads.demand() {
            case .nothing: "nothing"
            case .end(let connection): "end \(connection)"
            case .ask(let worker): "ask \(worker)"
            }
        }
    }

    @Test func theOldestHeadIsEndedAndNewOnesAreTaken() {
        let memory = HeadMemory(limit: 100, workers: 1)
        let heads = Worker(0, memory)
        let first = heads.begin("first", bytes: 40, at: 1)
        let second = heads.begin("second", bytes: 40, at: 2)
        #expect(heads.demand() == "nothing")
        let third = heads.begin("third", bytes: 60, at: 3)
        #expect(memory.bytes == 140)
        #expect(heads.demand() == "end first")
        #expect(heads.demand() == "nothing")
        // Its connection closes, and says so.
        heads.end(first)
        #expect(memory.bytes == 100)
        heads.grow(third, by: 1)
        #expect(heads.demand() == "end second")
        heads.grow(second, by: 1000)
        #expect(memory.bytes == 61)
        heads.end(third)
        heads.end(third)
        #expect(memory.bytes == 0)
    }

    @Test func aHeadThatBecomesWholeIsNoLongerTheOldest() {
        let memory = HeadMemory(limit: 10, workers: 1)
        let heads = Worker(0, memory)
        let first = heads.begin("first", bytes: 5, at: 1)
        _ = heads.begin("second", bytes: 5, at: 2)
        heads.end(first)
        _ = heads.begin("third", bytes: 6, at: 3)
        #expect(heads.demand() == "end second")
    }

    @Test func theWorkerWithTheOldestHeadIsAskedOnce() {
        let memory = HeadMemory(limit: 10, workers: 3)
        let a = Worker(0, memory)
        let b = Worker(1, memory)
        let c = Worker(2, memory)
        let old = b.begin("old", bytes: 5, at: 1)
        _ = c.begin("middle", bytes: 5, at: 2)
        let new = a.begin("new", bytes: 5, at: 3)
        #expect(a.demand() == "ask 1")
        a.grow(new, by: 1)
        #expect(a.demand() == "nothing")
        // Meanwhile that head became whole, and the memory is exceeded all the same.
        b.end(old)
        #expect(b.demand() == "ask 2")
        #expect(c.demand() == "end middle")
        #expect(c.demand() == "nothing")
        // It may be asked again.
        _ = b.begin("later", bytes: 1, at: 4)
        a.grow(new, by: 9)
        #expect(b.demand() == "ask 0")
    }

    @Test func aReloadMayLowerTheLimit() {
        let memory = HeadMemory(limit: 100, workers: 1)
        let heads = Worker(0, memory)
        _ = heads.begin("first", bytes: 40, at: 1)
        memory.setLimit(1 << 20)
        #expect(heads.demand() == "nothing")
        memory.setLimit(10)
        #expect(heads.demand() == "end first")
        #expect(memory.problem.kind == .requestTimeout)
        #expect(memory.problem.detail.contains("limits.head_memory: 10"))
    }
}
