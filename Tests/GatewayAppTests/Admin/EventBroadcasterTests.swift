import GatewayEvents
import GatewayTesting
import Testing

@testable import GatewayApp

@Suite(.timeLimit(.minutes(1)))
struct EventBroadcasterTests {
    private let broadcaster = EventBroadcaster()
    private let cuts = Watched(0)

    private func entries(_ ids: ClosedRange<Int64>, client: String? = nil) -> [AuditEntry] {
        ids.map { AuditEntry(id: $0, at: "2026-11-25T12:00:00.000Z", event: "renewed", client: client) }
    }

    private func open(_ query: EventQuery = EventQuery(), after id: Int64? = nil) -> EventBroadcaster.Stream? {
        broadcaster.open(query, after: id) { [cuts] in cuts.update { $0 += 1 } }
    }

    private func ids(of stream: EventBroadcaster.Stream) async -> [Int64] {
        var ids: [Int64] = []
        for await signal in stream.signals {
            if case .entry(let entry) = signal, let id = entry.id { ids.append(id) }
        }
        return ids
    }

    @Test func everyReaderGetsWhatItAskedFor() async throws {
        let all = try #require(open())
        let some = try #require(open(EventQuery(client: "ci")))
        broadcaster.publish(entries(1...2))
        broadcaster.publish(entries(3...3, client: "ci"))
        broadcaster.close()
        #expect(await ids(of: all) == [1, 2, 3])
        #expect(await ids(of: some) == [3])
        #expect(cuts.value == 0)
    }

    @Test func whoComesBackGetsWhatWasMissed() throws {
        broadcaster.publish(entries(5...9))
        let stream = try #require(open(after: 7))
        #expect(stream.missed.map(\.id) == [8, 9])
        #expect(stream.isWhole)
        #expect(try #require(open(after: 2)).isWhole == false)
        #expect(try #require(open()).missed == [])
    }

    @Test func aReaderThatIsTooSlowIsCut() async throws {
        let slow = try #require(open())
        let other = try #require(open(EventQuery(client: "ci")))
        broadcaster.publish(entries(1...Int64(EventBroadcaster.queueLimit)))
        #expect(cuts.value == 0)
        broadcaster.publish(entries(1000...1000))
        #expect(cuts.value == 1)
        #expect(await ids(of: slow).count == EventBroadcaster.queueLimit)
        broadcaster.publish(entries(1001...1001, client: "ci"))
        broadcaster.end(other.number)
        #expect(await ids(of: other) == [1001])
    }

    @Test func thereAreSoManyStreamsAndNoMore() throws {
        var streams: [EventBroadcaster.Stream] = []
        for _ in 0..<EventBroadcaster.streamLimit { streams.append(try #require(open())) }
        #expect(open() == nil)
        broadcaster.end(streams[0].number)
        broadcaster.end(streams[0].number)
        #expect(open() != nil)
        #expect(open() == nil)
    }

    @Test func theStopEndsAllStreams() async throws {
        let stream = try #require(open())
        broadcaster.close()
        #expect(await ids(of: stream) == [])
        #expect(open() == nil)
        broadcaster.publish(entries(1...1))
    }

    @Test func requestsAreForThoseWhoAskForThem() async throws {
        let requests = try #require(open(EventQuery(kind: .group(.requests))))
        let events = try #require(open())
        let asked = Watched<[String?]>([])
        let run = Task { [broadcaster] in
            await broadcaster.run { cursor in
                asked.update { $0.append(cursor) }
                return ([AuditEntry(id: nil, at: "", event: "request", requestID: "r\(asked.value.count)")], "c")
            }
        }
        try await asked.until { $0.count == 2 }
        run.cancel()
        await run.value
        broadcaster.close()
        #expect(asked.value.first == .some(nil))
        var names: [String?] = []
        for await case .entry(let entry) in requests.signals { names.append(entry.requestID) }
        #expect(names.first == "r2", "the first batch says where to begin")
        #expect(await ids(of: events) == [])
    }

    @Test func thePastStandsBeforeWhatCame() {
        broadcaster.publish(entries(3...4))
        let past = EventBroadcaster.Past(newest: entries(1...3), isWhole: true, timeline: [])
        broadcaster.begin(with: past)
        let page = broadcaster.page(EventQuery(), limit: 10)
        #expect(page.events.map(\.id) == [4, 3, 2, 1])
        #expect(page.isComplete)
    }
}
