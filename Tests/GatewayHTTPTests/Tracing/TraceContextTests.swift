import GatewayHTTP
import GatewayTesting
import Testing

@Suite("Trace context", .timeLimit(.minutes(5)))
struct TraceContextTests {
    private static let trace = "0af7651916cd43dd8448eb211c80319c"
    private static let parent = "b7ad6b7169203331"

    private func read(_ text: String) -> TraceContext? {
        let bytes = Array(text.utf8)
        return TraceContext(bytes.span, 0..<bytes.count)
    }

    @Test func aValidOneIsRead() {
        let context = read("00-\(Self.trace)-\(Self.parent)-01")
        #expect(context?.trace == TraceContext.TraceID(high: 0x0af7_6519_16cd_43dd, low: 0x8448_eb21_1c80_319c))
        #expect(context?.parent == 0xb7ad_6b71_6920_3331)
        #expect(context?.isSampled == true)
        #expect(read("00-\(Self.trace)-\(Self.parent)-00")?.isSampled == false)
        // Flags that are not known yet say nothing.
        #expect(read("00-\(Self.trace)-\(Self.parent)-fe")?.isSampled == false)
    }

    @Test(
        "what is not valid is ignored (W3C Trace Context section 3.2)",
        arguments: [
            "", "00", "00-\(trace)-\(parent)", "00-\(trace)-\(parent)-1", "00-\(trace)-\(parent)-01x",
            "00-\(trace)-\(parent)-01-more", "ff-\(trace)-\(parent)-01", "0-\(trace)-\(parent)-01",
            "00-00000000000000000000000000000000-\(parent)-01", "00-\(trace)-0000000000000000-01",
            "00-0AF7651916cd43dd8448eb211c80319c-\(parent)-01", "00_\(trace)-\(parent)-01", "00-\(trace)_\(parent)-01",
            "00-\(trace)-\(parent)_01", "00-\(trace)-b7ad6b716920333g-01", "00-\(trace)-\(parent)-0 ",
        ]
    )
    func whatIsNotValidIsIgnored(_ text: String) { #expect(read(text) == nil) }

    @Test func aLaterVersionMayHaveMore() {
        #expect(read("01-\(Self.trace)-\(Self.parent)-01-what-comes") != nil)
        #expect(read("01-\(Self.trace)-\(Self.parent)-01") != nil)
        #expect(read("01-\(Self.trace)-\(Self.parent)-01x") == nil)
    }

    @Test func numbersDifferAndAreNeverZero() {
        var numbers = TraceNumbers(seed: 7)
        let made = (0..<1000).map { _ in numbers.next() }
        #expect(Set(made).count == 1000 && !made.contains(0))
        var other = TraceNumbers(seed: 8)
        #expect(other.next() != made[0])
    }

    @Test func asManyTracesAreKeptAsWereAskedFor() {
        var numbers = TraceNumbers(seed: 1)
        let traces = (0..<10_000).map { _ in TraceContext.TraceID(high: numbers.next(), low: numbers.next()) }
        #expect(traces.count(where: TraceSampling(percent: 100).keeps) == 10_000)
        #expect(traces.count(where: TraceSampling(percent: 0).keeps) == 0)
        #expect((800...1200).contains(traces.count(where: TraceSampling(percent: 10).keeps)))
        let last = TraceContext.TraceID(high: .max, low: .max)
        #expect(TraceSampling(percent: 100).keeps(last) && !TraceSampling(percent: 99).keeps(last))
    }
}

@Suite("A request's part of its trace", .timeLimit(.minutes(5)))
struct RequestTraceTests {
    private static let client = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"

    private func trace(_ fields: [String], percent: Int = 100) -> RequestTrace? {
        var numbers = TraceNumbers(seed: 3)
        return HeadText.request(fields) { head, bytes in
            RequestTrace(head, bytes, TraceSampling(percent: percent), &numbers)
        }
    }

    @Test func aSampledClientIsFollowedWhateverTheShareIs() {
        let found = trace(["TraceParent: \(Self.client)-01", "tracestate: a=b"], percent: 0)
        #expect(found?.parent == 0xb7ad_6b71_6920_3331)
        #expect(found?.isSampled == true && found?.fields == .replaceParent)
        #expect(found?.span != found?.parent)
    }

    @Test func oneThatIsNotSampledIsLeftAlone() {
        let found = trace(["traceparent: \(Self.client)-00"])
        #expect(found?.isSampled == false && found?.passesClients == true && found?.fields == .pass)
    }

    @Test(arguments: [[], ["traceparent: nonsense"], ["traceparent: \(client)-01", "traceparent: \(client)-01"]])
    func withoutAValidParentATraceBegins(_ fields: [String]) {
        let found = trace(fields)
        #expect(found?.parent == 0 && found?.isSampled == true && found?.fields == .replaceAll)
        let unsampled = trace(fields, percent: 0)
        #expect(unsampled?.isSampled == false && unsampled?.passesClients == false && unsampled?.fields == .replaceAll)
    }

    @Test func eachTryHasASpanOfItsOwn() {
        guard var found = trace([]) else { return }
        func at(_ seconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * 1_000_000_000) }
        found.send(at: at(1))
        let first = found.upstreamSpan
        #expect(first != found.span && found.earlier == nil && found.sentAt == at(1))
        found.reject(status: 401, at: at(2))
        found.send(at: at(4))
        #expect(found.upstreamSpan != first && found.tries == 2)
        #expect(found.earlier?.span == first && found.earlier?.status == 401)
        #expect(found.earlier?.sentAt == at(1) && found.earlier?.endedAt == at(2))
        // A connection that was lost has no status.
        found.send(at: at(6))
        #expect(found.earlier?.status == 0 && found.earlier?.endedAt == at(6))
        let last = found.upstreamSpan
        found.sendUnsent(at: at(7))
        #expect(found.upstreamSpan == last && found.sentAt == at(7) && found.tries == 3)
    }
}

@Suite("Which requests are exported", .timeLimit(.minutes(5)))
struct ExportedTraceTests {
    private static func exported(_ client: TraceContext?, wasLetIn: Bool, percent: Int) -> Int {
        let sampling = TraceSampling(percent: percent)
        var numbers = TraceNumbers(seed: 7)
        return (0..<1000).count { _ in
            RequestTrace(following: client, sampling, &numbers).isExported(wasLetIn: wasLetIn, sampling)
        }
    }

    /// Also one that chose the number of the trace so that it would be kept.
    @Test func aClientThatIsNotLetInDecidesNothing() {
        let client = TraceContext(trace: TraceContext.TraceID(high: 1, low: 0), parent: 1, isSampled: true)
        #expect(Self.exported(client, wasLetIn: true, percent: 0) == 1000)
        #expect(Self.exported(client, wasLetIn: false, percent: 0) == 0)
        #expect((50...150).contains(Self.exported(client, wasLetIn: false, percent: 10)))
        #expect(Self.exported(client, wasLetIn: false, percent: 100) == 1000)
        #expect((50...150).contains(Self.exported(nil, wasLetIn: false, percent: 10)))
    }
}
