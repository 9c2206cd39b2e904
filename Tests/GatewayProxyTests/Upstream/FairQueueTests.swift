import GatewayTesting
import Testing

@testable import GatewayProxy

@Suite("Fair queue", .timeLimit(.minutes(5)))
struct FairQueueTests {
    /// A waiter is named by its client and a number: `b2` is the second one of `b`; `!b2` is urgent; `-1` has no client.
    private static func client(_ name: String) -> String? {
        let client = name.drop { $0 == "!" }.prefix { !$0.isNumber }
        return client == "-" ? nil : String(client)
    }

    @discardableResult
    private static func append(_ name: String, to queue: inout FairQueue<String>) -> FairQueue<String>.Admission {
        queue.append(name, client: client(name), isUrgent: name.hasPrefix("!"))
    }

    private static func drain(_ queue: inout FairQueue<String>) -> String {
        var order: [String] = []
        while let next = queue.popFirst() { order.append(next.element) }
        return order.joined(separator: " ")
    }

    @Test(arguments: [
        ("", ""),
        ("a1 a2 a3", "a1 a2 a3"),
        ("a1 a2 a3 b1 c1 b2", "a1 b1 c1 a2 b2 a3"),
        ("a1 a2 a3 a4 b1", "a1 b1 a2 a3 a4"),
        ("-1 -2 a1 -3", "-1 a1 -2 -3"),
        ("a1 b1 !b2 !a2 !b3", "!b2 !a2 !b3 a1 b1"),
        ("!a1 !a2 !a3 !b1 c1", "!a1 !b1 !a2 !a3 c1"),
    ])
    func clientsTakeTurns(_ come: String, _ leave: String) {
        var queue = FairQueue<String>(limit: 100)
        for name in come.split(separator: " ") { Self.append(String(name), to: &queue) }
        let order = Self.drain(&queue)
        #expect(order == leave)
        #expect(queue.isEmpty && queue.held(by: "a") == 0)
    }

    @Test func whoComesLaterHasItsTurnBehindThoseThatWait() {
        var queue = FairQueue<String>(limit: 100)
        for name in ["a1", "b1", "a2", "b2"] { Self.append(name, to: &queue) }
        let first = queue.popFirst()?.element
        for name in ["c1", "a3"] { Self.append(name, to: &queue) }
        let order = Self.drain(&queue)
        #expect(first == "a1")
        #expect(order == "b1 a2 c1 b2 a3")
    }

    struct Full: Sendable, CustomTestStringConvertible {
        let waiting: String
        let newcomer: String
        /// Who has to go; nil when it is the newcomer.
        let displaced: String?
        let order: String
        var testDescription: String { "\(waiting) + \(newcomer)" }
    }

    @Test(arguments: [
        Full(waiting: "a1 a2 a3", newcomer: "b1", displaced: "a3", order: "a1 b1 a2"),
        Full(waiting: "a1 a2 a3", newcomer: "-1", displaced: "a3", order: "a1 -1 a2"),
        Full(waiting: "a1 a2 a3", newcomer: "a4", displaced: nil, order: "a1 a2 a3"),
        Full(waiting: "a1 a2 a3", newcomer: "!a4", displaced: nil, order: "a1 a2 a3"),
        Full(waiting: "a1 a2 b1 b2 b3", newcomer: "c1", displaced: "b3", order: "a1 b1 c1 a2 b2"),
        // Otherwise the two would displace each other with each request.
        Full(waiting: "a1 a2 b1", newcomer: "b2", displaced: nil, order: "a1 b1 a2"),
        Full(waiting: "a1 b1", newcomer: "c1", displaced: nil, order: "a1 b1"),
        Full(waiting: "a1", newcomer: "b1", displaced: nil, order: "a1"),
        Full(waiting: "a1 !a2 !a3", newcomer: "b1", displaced: "a1", order: "!a2 !a3 b1"),
        Full(waiting: "!a1 !a2 !a3", newcomer: "b1", displaced: "!a3", order: "!a1 !a2 b1"),
        Full(waiting: "a1 a2 a3", newcomer: "!b1", displaced: "a3", order: "!b1 a1 a2"),
    ])
    func whenItIsFullTheClientThatHoldsTheMostGivesWay(_ full: Full) {
        let names = full.waiting.split(separator: " ").map(String.init)
        var queue = FairQueue<String>(limit: names.count)
        for name in names { Self.append(name, to: &queue) }
        switch Self.append(full.newcomer, to: &queue) {
        case .queued: Issue.record("there is no place")
        case .refused: #expect(full.displaced == nil)
        case .displaced(let ticket, let element, let own):
            #expect(element == full.displaced)
            #expect(ticket != own)
            let isGone = queue.remove(ticket) == nil
            #expect(isGone)
        }
        #expect(queue.count == names.count)
        let order = Self.drain(&queue)
        #expect(order == full.order)
    }

    @Test func aQueueWithoutPlacesRefusesEverybody() {
        var queue = FairQueue<String>(limit: 0)
        guard case .refused = Self.append("a1", to: &queue) else {
            Issue.record("there is no place")
            return
        }
    }

    @Test func aWaiterLeavesOnce() {
        var queue = FairQueue<String>(limit: 3)
        guard case .queued(let first) = Self.append("a1", to: &queue),
            case .queued(let second) = Self.append("a2", to: &queue)
        else {
            Issue.record("there are places")
            return
        }
        var left = [queue.remove(first), queue.remove(first)]
        #expect(left == ["a1", nil])
        // In the same place, under another ticket.
        Self.append("b1", to: &queue)
        left = [queue.remove(first), queue.popFirst()?.element, queue.remove(second), queue.popFirst()?.element]
        #expect(left == [nil, "a2", nil, "b1"])
        #expect(queue.isEmpty)
    }

    /// One client that asks without end beside one that asks once in a while.
    @Test func aFloodCostsAnotherClientOneTurn() {
        var queue = FairQueue<String>(limit: 8)
        var served = 0
        for round in 1...100 {
            for number in 0..<50 { Self.append("flood\(round * 100 + number)", to: &queue) }
            guard case .displaced = Self.append("b\(round)", to: &queue) else {
                Issue.record("no place for the other client")
                return
            }
            for number in 50..<60 { Self.append("flood\(round * 100 + number)", to: &queue) }
            let next = [queue.popFirst()?.element, queue.popFirst()?.element]
            if next.contains("b\(round)") { served += 1 }
        }
        #expect(served == 100)
    }

    /// Beside a queue that is written down as plainly as can be.
    @Test(arguments: 0..<8)
    func itKeepsAccount(_ seed: UInt64) {
        var random = SplitMix(seed: seed)
        let limit = Int.random(in: 1...12, using: &random)
        var queue = FairQueue<Int>(limit: limit)
        var waiting: [(ticket: WaiterTicket, id: Int, client: String, urgent: Bool)] = []
        for id in 0..<4000 {
            switch Int.random(in: 0..<6, using: &random) {
            case 0, 1, 2:
                let client = ["a", "a", "a", "b", "b", "c"].randomElement(using: &random) ?? "a"
                let isUrgent = Int.random(in: 0..<5, using: &random) == 0
                switch queue.append(id, client: client, isUrgent: isUrgent) {
                case .queued(let ticket): waiting.append((ticket, id, client, isUrgent))
                case .refused:
                    let most = Dictionary(grouping: waiting) { $0.client }.map(\.value.count).max() ?? 0
                    #expect(waiting.count == limit && waiting.count { $0.client == client } + 1 >= most)
                case .displaced(let ticket, let element, let own):
                    #expect(waiting.contains { $0.ticket == ticket && $0.id == element && $0.client != client })
                    waiting.removeAll { $0.ticket == ticket }
                    waiting.append((own, id, client, isUrgent))
                }
            case 3, 4:
                let (isUrgent, first, next) = (queue.isFirstUrgent, queue.first, queue.popFirst())
                let entry = waiting.first { $0.ticket == next?.ticket }
                #expect(entry?.id == next?.element && (entry == nil) == waiting.isEmpty)
                #expect(first == next?.element)
                guard let entry else { continue }
                #expect(isUrgent == entry.urgent && (entry.urgent || !waiting.contains { $0.urgent }))
                // The first of its client.
                #expect(waiting.first { $0.client == entry.client && $0.urgent == entry.urgent }?.id == entry.id)
                waiting.removeAll { $0.id == entry.id }
            default:
                guard let entry = waiting.randomElement(using: &random) else { continue }
                let element = queue.remove(entry.ticket)
                #expect(element == entry.id)
                waiting.removeAll { $0.id == entry.id }
            }
            #expect(queue.count == waiting.count)
            for client in ["a", "b", "c"] {
                #expect(queue.held(by: client) == waiting.count { $0.client == client })
            }
        }
    }
}
