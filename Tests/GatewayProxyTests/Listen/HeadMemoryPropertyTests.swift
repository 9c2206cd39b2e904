import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayProxy

@Suite("Memory of unfinished heads, at random", .timeLimit(.minutes(5)))
struct HeadMemoryPropertyTests {
    private final class Worker {
        var heads: UnfinishedHeads<Int>
        init(_ index: Int, _ memory: HeadMemory) { heads = UnfinishedHeads(worker: index, memory: memory) }
    }

    private struct Head {
        let worker: Int
        let place: UnfinishedHeads<Int>.Place
        var bytes: Int
    }

    /// Connections are numbered in the order in which their heads begin.
    private struct Model {
        static let limit = 1000
        let memory = HeadMemory(limit: Model.limit, workers: 3)
        let workers: [Worker]
        var heads: [Int: Head] = [:]
        var began = 0
        var ended = 0

        init() { workers = [0, 1, 2].map { [memory] in Worker($0, memory) } }

        mutating func begin(on worker: Int, bytes: Int) {
            began += 1
            let place = workers[worker].heads.begin(began, bytes: bytes, at: MonotonicTime(nanoseconds: Int64(began)))
            heads[began] = Head(worker: worker, place: place, bytes: bytes)
        }

        mutating func grow(_ connection: Int, by bytes: Int) {
            guard let head = heads[connection] else { return }
            workers[head.worker].heads.grow(head.place, by: bytes)
            heads[connection]?.bytes += bytes
        }

        mutating func end(_ connection: Int) {
            guard let head = heads.removeValue(forKey: connection) else { return }
            workers[head.worker].heads.end(head.place)
        }

        /// Asks until nothing is demanded. The oldest of all heads is ended each time.
        mutating func keepToTheLimit(from worker: Int) -> Bool {
            var worker = worker
            while true {
                switch workers[worker].heads.demand() {
                case .nothing: return memory.bytes <= Self.limit
                case .ask(let other): worker = other
                case .end(let connection):
                    guard connection == heads.keys.min() else { return false }
                    heads[connection] = nil
                    ended += 1
                }
            }
        }
    }

    @Test(arguments: 1...8 as ClosedRange<UInt64>)
    func theSumIsRightAndTheOldestGoesFirst(_ seed: UInt64) {
        var random = SplitMix(seed: seed)
        var model = Model()
        for _ in 0..<4000 {
            let worker = Int.random(in: 0..<3, using: &random)
            let some = model.heads.keys.sorted().randomElement(using: &random)
            switch Int.random(in: 0..<5, using: &random) {
            case 0, 1: model.begin(on: worker, bytes: Int.random(in: 0...200, using: &random))
            case 2, 3: if let some { model.grow(some, by: Int.random(in: 0...100, using: &random)) }
            default: if let some { model.end(some) }
            }
            let keepsToTheLimit = model.keepToTheLimit(from: worker)
            #expect(keepsToTheLimit)
            #expect(model.memory.bytes == model.heads.values.reduce(0) { $0 + $1.bytes })
        }
        #expect(model.ended > 100)
    }
}
