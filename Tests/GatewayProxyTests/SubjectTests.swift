import GatewayEvents
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayProxy

/// Subjects by their number from 1 on, each with a source of its own, whose generation is that number.
private final class Subjects: SubjectCredentialResolver {
    let name = "app-user"
    let strategy = "delegated"
    let grantKey = CredentialKey(digest: "app-user")
    let naming = TokenNaming.field("X-Box-User")
    let sources: [String: ScriptedSource]

    /// - Parameter configure: The first one's source.
    init(_ count: Int = 2, _ configure: (inout ScriptedSource.State) -> Void = { _ in }) {
        var sources = ["1": ScriptedSource(configure)]
        for number in 2...count { sources[String(number)] = ScriptedSource { $0.generation = number } }
        self.sources = sources
    }

    func source(for subject: String, client: String?) -> Result<any CredentialSource, GatewayProblem> {
        sources[subject].map { .success($0) } ?? .failure(GatewayProblem(.routeForbidden, "Not allowed."))
    }

    func look(for subject: String, client: String?) -> Result<(any CredentialSource)?, GatewayProblem> {
        source(for: subject, client: nil).map { $0 }
    }
}

/// Makes a new credential for each request, and counts how many are still in memory.
private final class MadeAnew: SubjectCredentialResolver {
    private final class Source: CredentialSource {
        let name = "app-user"
        let strategy = "delegated"
        let isRenewable = false
        private let made: @Sendable (Credential) -> Void

        init(_ made: @escaping @Sendable (Credential) -> Void) { self.made = made }

        func current(at now: MonotonicTime) -> CredentialAnswer {
            let credential = ScriptedSource.credential(1)
            made(credential)
            return .ready(credential)
        }

        func wait(
            for demand: CredentialRequest,
            _ done: @escaping @Sendable (Result<Credential, GatewayProblem>) -> Void
        ) -> CredentialTicket { CredentialTicket(id: 1) }

        func cancel(_ ticket: CredentialTicket) {}
        func rejected(generation: Int, by demand: CredentialRequest) {}
        func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest) {}
    }

    private struct Made {
        weak var credential: Credential?
    }

    let name = "app-user"
    let strategy = "delegated"
    let grantKey = CredentialKey(digest: "app-user")
    let naming = TokenNaming.field("X-Box-User")
    private let sources = Mutex<[String: Source]>([:])
    private let made = Mutex<[Made]>([])

    var inMemory: Int { made.withLock { $0.count { $0.credential != nil } } }

    func source(for subject: String, client: String?) -> Result<any CredentialSource, GatewayProblem> {
        sources.withLock { sources in
            let source =
                sources[subject]
                ?? Source { [weak self] credential in self?.made.withLock { $0.append(Made(credential: credential)) } }
            sources[subject] = source
            return .success(source)
        }
    }

    func look(for subject: String, client: String?) -> Result<(any CredentialSource)?, GatewayProblem> {
        source(for: subject, client: nil).map { $0 }
    }
}

@Suite(.timeLimit(.minutes(5)))
struct SubjectTests {
    private func get(_ fields: String...) -> String {
        "GET /api HTTP/1.1\r\nHost: localhost\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n"
    }

    @Test func theFieldChoosesTheTokenAndStaysHere() async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin, selection: Subjects()) { proxy in
            let client = try proxy.client()
            for (field, token) in [("X-Box-User: 1", 1), ("x-box-user:2", 2), ("X-BOX-USER:  1 ", 1)] {
                client.send(get(field, "X-Other: 1"))
                #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 200") == true)
                let request = origin.requests.last ?? ""
                #expect(request.contains("Authorization: Bearer token-\(token)\r\n"))
                #expect(request.contains("X-Other: 1\r\n"))
                #expect(!request.lowercased().contains("x-box-user"))
            }
            client.close()
            #expect(proxy.observer.uses.map(\.generation) == [1, 2, 1])
        }
    }

    /// More than an event loop keeps ready for one route.
    @Test func eachOfManySubjectsHasItsOwnToken() async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin, selection: Subjects(300)) { proxy in
            let client = try proxy.client()
            for number in Array(1...300) + [1, 150, 256, 257, 300] {
                client.send(get("X-Box-User: \(number)"))
                #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 200") == true)
                #expect(origin.requests.last?.contains("Authorization: Bearer token-\(number)\r\n") == true)
            }
            client.close()
        }
    }

    @Test func theNumberOfSubjectsKeptReadyIsLimited() async throws {
        let origin = try RawOrigin.answering()
        let subjects = MadeAnew()
        try await withProxy(origin, selection: subjects) { proxy in
            let client = try proxy.client()
            func ask(_ number: Int) {
                client.send(get("X-Box-User: \(number)"))
                #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 200") == true)
            }
            for number in 1...WorkerConfiguration.maximumChosen { ask(number) }
            #expect(subjects.inMemory == WorkerConfiguration.maximumChosen)
            ask(WorkerConfiguration.maximumChosen + 1)
            // The new one, and the one that the previous request might still hold.
            #expect(subjects.inMemory <= 2)
            client.close()
        }
    }

    @Test(arguments: [
        ([], 400), (["X-Box-User:"], 400), (["X-Box-User: 1", "X-Box-User: 1"], 400), (["X-Box-User: 3"], 403),
        (["X-Box-User: 1", "X_Box_User: 2"], 400), (["X-Box-User: 1, 2"], 403),
    ])
    func whoDoesNotSayItWellGetsNothing(_ fields: [String], _ status: Int) async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin, selection: Subjects()) { proxy in
            let request = "GET /api HTTP/1.1\r\nHost: localhost\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n"
            let answer = try proxy.exchange(request)
            #expect(answer.head.hasPrefix("HTTP/1.1 \(status) "), "\(answer.head)\(answer.body)")
            #expect(answer.body.hasPrefix("{\"type\":\"urn:authgateway:problem:"))
            #expect(answer.body.contains("\"credential\":\"app-user\"") || fields.count == 2)
            #expect(origin.requests.isEmpty)
            #expect(proxy.observer.denials == (status == 403 ? [.routeForbidden] : []))
        }
    }

    @Test func aRefusedSubjectDoesNotCostTheConnection() async throws {
        let origin = try RawOrigin.answering()
        try await withProxy(origin, selection: Subjects()) { proxy in
            let client = try proxy.client()
            for (request, status) in [(get(), 400), (get("X-Box-User: 3"), 403), (get("X-Box-User: 2"), 200)] {
                client.send(request)
                #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 \(status) ") == true)
            }
            client.close()
        }
    }

    /// Tokens must not stay in memory when what they were for is gone.
    @Test func nothingOfARouteOutlivesItsConfiguration() async throws {
        weak var ended: Subjects?
        do {
            let origin = try RawOrigin.answering()
            let subjects = Subjects()
            ended = subjects
            try await withProxy(origin, selection: subjects) { proxy in
                try #expect(proxy.exchange(get("X-Box-User: 1")).head.hasPrefix("HTTP/1.1 200"))
            }
        }
        let deadline = ContinuousClock.now + .seconds(5)
        while ended != nil, ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(5)) }
        #expect(ended == nil)
    }

    @Test func aTrailerCannotNameOne() async throws {
        let origin = try RawOrigin { connection, _, origin in
            guard let head = connection.read(through: "\r\n\r\n") else { return }
            origin.record(head + (connection.read(through: "0\r\n") ?? ""))
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            origin.record(try connection.readToEnd(.closed))
        }
        try await withProxy(origin, selection: Subjects()) { proxy in
            let client = try proxy.client()
            client.send(
                "POST /api HTTP/1.1\r\nHost: localhost\r\nX-Box-User: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + "1\r\nx\r\n0\r\nX-Box-User: 2\r\n\r\n"
            )
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 200") == true)
            client.close()
        }
        #expect(origin.requests.count == 2)
        #expect(origin.requests.first?.hasSuffix("\r\n\r\n1\r\nx\r\n0\r\n") == true)
        #expect(origin.requests.last == "\r\n")
        #expect(origin.requests.allSatisfy { !$0.lowercased().contains("x-box-user") })
    }

    @Test func aRejectionIsReportedToTheChosenSource() async throws {
        let origin = try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head)
                let isFresh = message.head.contains("token-2")
                let answer = isFresh ? "200 OK" : "401 Unauthorized"
                connection.send("HTTP/1.1 \(answer)\r\nContent-Length: 0\r\n\r\n")
            }
        }
        let subjects = Subjects()
        try await withProxy(origin, selection: subjects) { proxy in
            try #expect(proxy.exchange(get("X-Box-User: 1")).head.hasPrefix("HTTP/1.1 200"))
        }
        #expect(origin.requests.count == 2)
        #expect(subjects.sources["1"]?.state.withLock { $0.events } == ["injected 1", "replayed 1", "injected 2"])
        #expect(subjects.sources["2"]?.state.withLock { $0.events } == [])
    }

    @Test func whoLeavesWhileWaitingIsNoLongerWaitedFor() async throws {
        let origin = try RawOrigin.answering()
        let subjects = Subjects { $0.isCold = true }
        try await withProxy(origin, selection: subjects) { proxy in
            let source = try #require(subjects.sources["1"])
            let client = try proxy.client()
            client.send(get("X-Box-User: 1"))
            try source.untilAsked()
            client.close()
            try blockUntil("it is no longer waited for") { source.state.withLock { !$0.events.isEmpty } }
            #expect(source.state.withLock { $0.events } == ["cancelled"])
            source.settle(.success(ScriptedSource.credential(1)))
            // Answered all the same, so nothing is stuck behind the one who left.
            try #expect(proxy.exchange(get("X-Box-User: 2")).head.hasPrefix("HTTP/1.1 200"))
            #expect(origin.requests.count == 1)
        }
    }
}
