import Foundation
import GatewayEvents
import GatewayHTTP
import Testing

@testable import GatewayApp

@Suite("Request history", .timeLimit(.minutes(5)))
struct RequestHistoryTests {
    private static let at = UnixTime(seconds: 1_800_000_000)

    private static func request(_ id: String, status: Int? = nil, at: String = "2027-01-15T08:00:00.000Z")
        -> RequestHistory.Request
    {
        var request = RequestHistory.Request(requestId: id, at: at)
        request.status = status
        return request
    }

    private static func event(_ name: String, at: String) -> RequestHistory.Event {
        RequestHistory.Event(at: at, event: name, failed: false)
    }

    @Test(
        arguments: [
            (2, 33, 153, 157, "157 ms: credential 2 ms, connection 31 ms, response head 120 ms, content 4 ms"),
            (0, nil, nil, 5003, "5003 ms: credential 0 ms, no connection after 5003 ms"),
            (3, 4, nil, 30_004, "30004 ms: credential 3 ms, connection 1 ms, no response head after 30000 ms"),
            (nil, nil, nil, 10, "10 ms: no credential after 10 ms"), (nil, nil, nil, 0, "0 ms"),
            // Of a row that somebody has changed.
            (.min, 3, 5, -1, "-1 ms: credential 0 ms, connection 3 ms, response head 2 ms, content 0 ms"),
            (
                -1, .max, nil, .min,
                "\(Int.min) ms: credential 0 ms, connection \(Int.max) ms, no response head after 0 ms"
            ),
        ] as [(Int?, Int?, Int?, Int, String)]
    )
    func itSaysWhereTheTimeWent(_ credential: Int?, _ connection: Int?, _ response: Int?, _ total: Int, _ text: String)
    {
        let times = RequestHistory.Times(
            credential: credential,
            connection: connection,
            response: response,
            total: total
        )
        #expect(times.text == text)
    }

    @Test func whatSeveralPlacesSayIsOneRequest() {
        var memory = Self.request("a-1", status: 502)
        memory.route = "box"
        var row = Self.request("a-1", status: 200)
        row.client = "ci"
        let events = [
            "a-1": [
                Self.event("injected", at: "2027-01-15T08:00:02Z"), Self.event("acquired", at: "2027-01-15T08:00:01Z"),
            ],
            "a-2": [Self.event("acquired", at: "2027-01-15T07:00:01Z")],
        ]
        let history = RequestHistory(id: "mine", known: [memory, row], events: events, remarks: [])
        #expect(history.requests.map(\.requestId) == ["a-2", "a-1"])
        let joined = history.requests[1]
        #expect(joined.status == 502 && joined.route == "box" && joined.client == "ci")
        #expect(joined.events.map(\.event) == ["acquired", "injected"])
        #expect(history.requests[0].verdict == "A request: the response is not known.")
    }

    @Test func aRequestWhoseStreamWasResetGotNoResponse() {
        var request = Self.request("a-1", status: 0)
        #expect(request.verdict == "A request: no response was sent.")
        request.problem = "client-limit-reached"
        #expect(request.verdict == "A request: the gateway refused it without a response: client-limit-reached.")
    }

    @Test func allMatchesOfAClientsIDAreListed() {
        let known = (1...3).map { Self.request("a-\($0)", status: 200, at: "2027-01-15T08:00:0\($0).000Z") }
        let history = RequestHistory(id: "mine", known: known, events: [:], remarks: ["memory"])
        #expect(history.requests.count == 3)
        let text = history.text()
        #expect(text.components(separatedBy: "the upstream answered 200.").count == 4)
        #expect(text.hasSuffix("looked at   memory\n"))
    }

    @Test func aFailureIsToldWithItsCommand() {
        let failure = RequestFailure(
            GatewayProblem(.loginRequired, "Log in.\u{1B}[2J", command: "authgateway login box"),
            credential: "box",
            place: RequestPlace(peer: "192.0.2.7", host: "box.localhost", path: "/users/{id}")
        )
        let use = RequestUse(
            at: Self.at,
            requestID: "a-1",
            clientRequestID: "mine",
            route: "box",
            client: nil,
            method: "GET",
            status: 503,
            problem: .loginRequired,
            failure: failure,
            bytesReceived: 0,
            bytesSent: 321,
            duration: .milliseconds(12)
        )
        let history = RequestHistory(id: "mine", known: [RequestHistory.Request(use)], events: [:], remarks: [])
        let text = history.text()
        #expect(text.hasPrefix("GET on route box: the gateway answered 503 login-required after 12 ms.\n"))
        for part in [
            "request     a-1, the client's id mine", "client      from 192.0.2.7",
            "asked for   GET /users/{id}, Host box.localhost", "credential  box\n", "Log in.\\u{1b}[2J",
            "time        12 ms: no credential after 12 ms", "Run:\n  authgateway login box\n",
            "What the code means:\n  authgateway explain-error login-required\n",
        ] { #expect(text.contains(part), "\(part) in\n\(text)") }
        #expect(!text.contains("\u{1B}"))
    }

    @Test func nothingIsSaidInASentence() throws {
        let history = RequestHistory(id: "x", known: [], events: [:], remarks: ["the audit log"])
        #expect(history.text() == "No request is known by the id x.\n\nlooked at   the audit log\n")
        let answer = ExplanationAnswer(history)
        #expect(try JSONDecoder().decode(ExplanationAnswer.self, from: JSONEncoder().encode(answer)) == answer)
    }
}
