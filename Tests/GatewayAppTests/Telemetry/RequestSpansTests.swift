import FoundationEssentials
import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayApp
@testable import GatewayProxy

@Suite("Spans of a request", .timeLimit(.minutes(5)))
struct RequestSpansTests {
    private let route = TracedRequest.Route(
        name: "box",
        path: "/box",
        upstream: Origin(scheme: .https, host: "api.box.com", port: 443)
    )

    private func request(
        status: Int = 200,
        problem: ProblemKind? = nil,
        method: String = "GET",
        _ steps: (inout RequestTrace) -> Void = { $0.send(at: Self.at(2)) }
    ) -> TracedRequest {
        var numbers = TraceNumbers(seed: 5)
        let client = TraceContext(trace: .init(high: 1, low: 2), parent: 9, isSampled: true)
        var trace = RequestTrace(following: client, TraceSampling(percent: 100), &numbers)
        steps(&trace)
        let credential = Credential(
            name: "box-service",
            generation: 4,
            injection: Injection.authorization(scheme: "Bearer", Secret("hush"))
        )
        var record = ExchangeRecord(
            requestID: RequestID(run: 1, worker: 0, number: 5),
            route: 3,
            client: "laptop",
            method: method,
            startedAt: Self.at(1),
            finishedAt: Self.at(9)
        )
        record.status = status
        record.problem = problem
        record.credential = credential
        return TracedRequest(record, trace)
    }

    private static func at(_ seconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * 1_000_000_000) }

    private func values(_ span: TelemetrySpan) -> [String: TelemetryValue] {
        Dictionary(uniqueKeysWithValues: span.attributes.map { ($0.key, $0.value) })
    }

    @Test func aRequestIsAServerSpanWithAClientSpanBelow() {
        let spans = request().spans(route, offset: 1000)
        #expect(spans.map(\.kind) == [.server, .client])
        #expect(spans.map(\.name) == ["GET /box", "GET"])
        #expect(spans[0].parent == 9 && spans[1].parent == spans[0].span)
        #expect(Set(spans.map(\.trace)) == [TraceContext.TraceID(high: 1, low: 2)])
        #expect(spans[0].start == 1_000_001_000 && spans[0].end == 9_000_001_000)
        #expect(spans[1].start == 2_000_001_000 && spans[1].end == 9_000_001_000)
        let server = values(spans[0])
        #expect(server["http.request.method"] == .text("GET") && server["http.response.status_code"] == .number(200))
        #expect(server["http.route"] == .text("/box") && server["gateway.route"] == .text("box"))
        #expect(server["gateway.credential"] == .text("box-service") && server["gateway.client"] == .text("laptop"))
        #expect(server["error.type"] == nil && !spans[0].isError)
        let upstream = values(spans[1])
        #expect(upstream["server.address"] == .text("api.box.com") && upstream["server.port"] == .number(443))
        #expect(!"\(spans)".contains("hush"))
    }

    @Test func aTryThatWasRejectedHasASpanOfItsOwn() {
        let spans = request {
            $0.send(at: Self.at(2))
            $0.reject(status: 401, at: Self.at(3))
            $0.send(at: Self.at(5))
        }.spans(route, offset: 0)
        #expect(spans.map(\.kind) == [.server, .client, .client])
        #expect(values(spans[1])["http.response.status_code"] == .number(401) && spans[1].isError)
        #expect(spans[1].end == 3_000_000_000 && spans[2].start == 5_000_000_000)
        #expect(values(spans[2])["http.request.resend_count"] == .number(1) && !spans[2].isError)
        #expect(Set(spans.map(\.span)).count == 3)
    }

    @Test func whatWasNotSentHasNoClientSpan() {
        let spans = request(status: 403, problem: .routeForbidden) { _ in }.spans(route, offset: 0)
        #expect(spans.map(\.kind) == [.server])
        // What a client did wrong is no error of the server's.
        #expect(values(spans[0])["error.type"] == .text("route-forbidden") && !spans[0].isError)
        #expect(request().spans(nil, offset: 0).map(\.name) == ["GET"])
        // Its stream was reset.
        let reset = request(status: 0, problem: .clientLimitReached) { _ in }.spans(nil, offset: 0)[0]
        #expect(values(reset)["error.type"] == .text("client-limit-reached") && !reset.isError)
        #expect(values(reset)["http.response.status_code"] == nil)
    }

    @Test func failuresHaveATypeOnTheSideTheyBelongTo() {
        let missing = request(status: 404).spans(route, offset: 0)
        #expect(!missing[0].isError && missing[1].isError && values(missing[1])["error.type"] == .text("404"))
        let broken = request(status: 503).spans(route, offset: 0)
        #expect(broken[0].isError && values(broken[0])["error.type"] == .text("503"))
        let unreachable = request(status: 502, problem: .upstreamUnreachable).spans(route, offset: 0)
        #expect(values(unreachable[1])["error.type"] == .text("upstream-unreachable"))
        #expect(values(unreachable[1])["http.response.status_code"] == nil, "the answer was the gateway's own")
        let cut = request(status: 200, problem: .upstreamInvalidResponse).spans(route, offset: 0)
        #expect(cut[0].isError)
        let left = request(status: 0).spans(route, offset: 0)
        #expect(values(left[0])["error.type"] == .text("client_left") && !left[0].isError)
    }

    @Test func anUnusualMethodIsOneOfMany() {
        let span = request(method: "MADEUP").spans(route, offset: 0)[0]
        #expect(values(span)["http.request.method"] == .text("_OTHER") && span.name == "_OTHER /box")
    }
}

@Suite("OTLP in JSON", .timeLimit(.minutes(5)))
struct OTLPEncoderTests {
    private let encoder = OTLPEncoder([TelemetryAttribute("service.name", "a\"b")], version: "1")

    private func json(_ text: String) throws -> JSONValue { try #require(JSONValue(Array(text.utf8)), "\(text)") }

    @Test func aSpanIsWrittenAsTheProtocolWantsIt() throws {
        let span = TelemetrySpan(
            trace: .init(high: 0x0a, low: 0xff),
            span: 1,
            parent: 0x20,
            name: "GET /x",
            kind: .server,
            start: 1_800_000_000_123_456_789,
            end: 1_800_000_000_123_456_790,
            attributes: [TelemetryAttribute("k", "a\nb"), TelemetryAttribute("n", 7)],
            isError: true
        )
        #expect(
            encoder.spans([span]) == """
                {"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"a\\"b"}}]},\
                "scopeSpans":[{"scope":{"name":"authgateway","version":"1"},"spans":[{"traceId":"000000000000000a\
                00000000000000ff","spanId":"0000000000000001","parentSpanId":"0000000000000020","name":"GET /x","kind":2,\
                "startTimeUnixNano":"1800000000123456789","endTimeUnixNano":"1800000000123456790","attributes":[{"key":"k",\
                "value":{"stringValue":"a\\nb"}},{"key":"n","value":{"intValue":"7"}}],"status":{"code":2}}]}]}]}
                """
        )
        _ = try json(encoder.spans([span, span]))
        _ = try json(encoder.spans([]))
    }

    @Test func metricsAreSumsGaugesAndHistograms() throws {
        let metrics = [
            TelemetryMetric(name: "a", unit: "1", help: "A.", points: [([TelemetryAttribute("x", "y")], .sum(3))]),
            TelemetryMetric(name: "b", unit: "s", help: "B.", points: [([], .gauge(1.5)), ([], .gauge(.nan))]),
            TelemetryMetric(
                name: "c",
                unit: "s",
                help: "C.",
                points: [([], .histogram(counts: [1, 2, 0], sum: 0.5, bounds: [0.1, 1]))]
            ),
        ]
        let text = encoder.metrics(metrics, from: 1, to: 2)
        _ = try json(text)
        #expect(
            text.contains(
                #""sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[{"attributes":[{"key":"x""#
            )
        )
        #expect(text.contains(#""asInt":"3""#) && text.contains(#""asDouble":1.5"#) && text.contains(#""asDouble":0}"#))
        #expect(text.contains(#""count":"3","sum":0.5,"bucketCounts":["1","2","0"],"explicitBounds":[0.1,1.0]"#))
        #expect(text.contains(#""startTimeUnixNano":"1","timeUnixNano":"2""#))
    }
}

@Suite("When telemetry is sent again", .timeLimit(.minutes(5)))
struct ExportScheduleTests {
    private func at(_ seconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * 1_000_000_000) }

    @Test func onlySomeAnswersMeanLater() {
        typealias Answer = ExportSchedule.Answer
        #expect(Answer(status: 200) == .accepted && Answer(status: 202) == .accepted)
        for status in [429, 502, 503, 504] { #expect(Answer(status: status) == .later(after: nil)) }
        for status in [301, 400, 401, 404, 413, 500] { #expect(Answer(status: status) == .refused(status: status)) }
        #expect(Answer(status: 503, retryAfter: "7") == .later(after: .seconds(7)))
        #expect(Answer(status: 503, retryAfter: "-7") == .later(after: .zero))
        #expect(Answer(status: 503, retryAfter: "soon") == .later(after: nil))
    }

    @Test func pausesGrowUntilABatchIsTaken() {
        var schedule = ExportSchedule()
        #expect(schedule.isDue(at: at(0)))
        var now: Int64 = 0
        var pauses: [Int64] = []
        for _ in 0..<8 {
            let isKept = schedule.note(.later(after: nil), at: at(now), jitter: 1)
            #expect(isKept)
            let before = now
            while !schedule.isDue(at: at(now)) { now += 1 }
            pauses.append(now - before)
        }
        #expect(pauses == pauses.sorted() && pauses[0] <= 2 && pauses.last == 60)
        let isKept = schedule.note(.accepted, at: at(now), jitter: 1)
        #expect(!isKept && schedule.isDue(at: at(now)))
    }

    @Test func theCollectorsOwnWishCountsAndARefusalIsFinal() {
        var schedule = ExportSchedule()
        let waits = schedule.note(.later(after: .seconds(30)), at: at(0), jitter: 0)
        #expect(waits)
        #expect(!schedule.isDue(at: at(29)) && schedule.isDue(at: at(30)))
        let isKept = schedule.note(.refused(status: 400), at: at(30), jitter: 0)
        #expect(!isKept && schedule.isDue(at: at(30)))
    }
}
