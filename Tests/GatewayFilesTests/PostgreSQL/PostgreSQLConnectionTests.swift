import Foundation
import GatewayHTTP
import GatewayTesting
import Synchronization
import Testing

@testable import GatewayFiles

@Suite("A connection to PostgreSQL", .timeLimit(.minutes(5)))
struct PostgreSQLConnectionTests {
    private static let server = Result { try PostgreSQLTestServer() }

    private func connection(
        _ database: String = "postgres",
        channel: String? = nil,
        onNotification: @escaping @Sendable (String) -> Void = { _ in }
    ) throws -> PostgreSQLConnection {
        var options = PostgreSQLOptions(try PostgreSQLURL(try Self.server.get().url(database)))
        options.channel = channel
        return PostgreSQLConnection(options, onNotification: onNotification)
    }

    private func rows(
        _ connection: PostgreSQLConnection,
        _ text: String,
        _ parameters: [PostgreSQLStatement.Parameter] = []
    ) async throws -> [PostgreSQLRow] {
        try await connection.run(PostgreSQLStatement(text, parameters), within: .seconds(5))
    }

    @Test func valuesComeBackAsTheyWere() async throws {
        let connection = try connection()
        let bytes = [UInt8](0...255)
        let found = try await rows(
            connection,
            "SELECT $1::text, $2::bigint, $3::bytea, $4::text, true, 7, ''::text, ''::bytea",
            ["a\u{1F511}'\"\\", .integer(.min), .bytes(bytes), .null]
        )
        let row = try #require(found.first)
        #expect(found.count == 1)
        #expect(row.text(0) == "a\u{1F511}'\"\\")
        #expect(row.integer(1) == .min)
        #expect(row.bytes(2) == bytes)
        #expect(row.isNull(3) && row.text(3) == nil)
        #expect(row.boolean(4) == true)
        #expect(row.integer(5) == 7)
        #expect(row.text(6) == "" && row.bytes(7) == [])
        #expect(row.text(99) == nil && row.integer(0) == nil)
        #expect(connection.server?.majorVersion ?? 0 >= 15)
        #expect(connection.server?.isDirect == true)
        await connection.close(within: .seconds(3))
    }

    @Test func aRefusalHasItsStateAndTheConnectionGoesOn() async throws {
        let connection = try connection()
        do throws(PostgreSQLFailure) {
            _ = try await connection.run(PostgreSQLStatement("SELECT 1/0"), within: .seconds(5))
            Issue.record("divided by zero")
        } catch {
            #expect(error.kind == .refused("22012"))
            #expect(error.reason == "the server answered \"division by zero\" (SQLSTATE 22012)")
        }
        #expect(try await rows(connection, "SELECT 1").first?.integer(0) == 1)
        await connection.close(within: .seconds(3))
        await #expect(throws: PostgreSQLFailure.self) { try await rows(connection, "SELECT 1") }
    }

    @Test func aStatementEndsAtItsDeadlineOnTheServerToo() async throws {
        let connection = try connection()
        let start = ContinuousClock.now
        do throws(PostgreSQLFailure) {
            _ = try await connection.run(PostgreSQLStatement("SELECT pg_sleep(77)"), within: .milliseconds(500))
            Issue.record("slept")
        } catch {
            #expect(error.kind == .unknown)
        }
        #expect(ContinuousClock.now - start < .seconds(3))
        for _ in 0..<50 {
            let running = try await rows(
                connection,
                "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(77)%' AND state = 'active'"
            )
            if running.isEmpty { break }
            try await Task.sleep(for: .milliseconds(100))
        }
        #expect(
            try await rows(connection, "SELECT 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(77)'").isEmpty
        )
        await connection.close(within: .seconds(3))
    }

    @Test func aConnectionThatEndsIsReplaced() async throws {
        let connection = try connection()
        let pid = try #require(try await rows(connection, "SELECT pg_backend_pid()").first?.integer(0))
        try Self.server.get().administrate("SELECT pg_terminate_backend(\(pid))")
        let next = try await connection.run(
            PostgreSQLStatement("SELECT pg_backend_pid()", isRepeatable: true),
            within: .seconds(5)
        )
        #expect(next.first?.integer(0) != pid)
        await connection.close(within: .seconds(3))
    }

    @Test func notificationsArriveAndALateListenerIsHeard() async throws {
        let (stream, heard) = AsyncStream.makeStream(of: String.self)
        let listener = try connection(channel: "channel_a") { heard.yield($0) }
        let connection = try connection()
        for _ in 0..<100 where listener.server == nil { try await Task.sleep(for: .milliseconds(50)) }
        #expect(listener.server?.listens == true)
        _ = try await rows(connection, "SELECT pg_notify('channel_a', 'first'), pg_notify('channel_b', 'other')")
        _ = try await rows(connection, "SELECT pg_notify('channel_a', 'second')")
        var payloads: [String] = []
        for await payload in stream {
            payloads.append(payload)
            if payloads.count == 2 { break }
        }
        #expect(payloads == ["first", "second"])
        await listener.close(within: .seconds(3))
        await connection.close(within: .seconds(3))
    }

    @Test func whoListensIsToldOfTheEndOfEachConnection() async throws {
        let (stream, told) = AsyncStream.makeStream(of: Bool.self)
        var options = PostgreSQLOptions(try PostgreSQLURL(try Self.server.get().url()))
        options.channel = "channel_c"
        let listener = PostgreSQLConnection(
            options,
            onConnection: { told.yield($0.listens) },
            onDisconnection: { told.yield(false) }
        )
        let pid = try #require(try await rows(listener, "SELECT pg_backend_pid()").first?.integer(0))
        try Self.server.get().administrate("SELECT pg_terminate_backend(\(pid))")
        var heard: [Bool] = []
        for await listens in stream {
            heard.append(listens)
            if heard.count == 3 { break }
        }
        #expect(heard == [true, false, true])
        await listener.close(within: .seconds(3))
    }

    @Test func manyStatementsAtATimeAllGetTheirAnswer() async throws {
        let connection = try connection()
        let answers = try await withThrowingTaskGroup(of: Int64?.self) { group in
            for number in 0..<10_000 {
                group.addTask {
                    let statement = PostgreSQLStatement("SELECT $1::bigint", [.integer(Int64(number))])
                    return try await connection.run(statement, within: .seconds(60)).first?.integer(0)
                }
            }
            return try await group.reduce(into: Set<Int64>()) { answers, answer in
                if let answer { answers.insert(answer) }
            }
        }
        #expect(answers.count == 10_000)
        await connection.close(within: .seconds(3))
    }

    @Test func aStatementThatHasWaitedForTooLongIsNotSent() async throws {
        let connection = try connection()
        _ = try await rows(connection, "CREATE TEMPORARY TABLE t (n int)")
        async let sleep = connection.run(PostgreSQLStatement("SELECT pg_sleep(1.5)"), within: .seconds(5))
        try await Task.sleep(for: .milliseconds(100))
        do throws(PostgreSQLFailure) {
            let insert = PostgreSQLStatement("INSERT INTO t VALUES (1)")
            _ = try await connection.run(insert, within: .milliseconds(200))
            Issue.record("sent")
        } catch {
            #expect(error.reason == "the server did not answer in time")
        }
        _ = try await sleep
        #expect(try await rows(connection, "SELECT 1 FROM t").isEmpty)
        await connection.close(within: .seconds(3))
    }

    @Test func aServerThatIsNotThereIsAnErrorAtOnceAfterAWhile() async throws {
        let url = try PostgreSQLURL("postgresql://u:canary@127.0.0.1:1/db")
        let connection = PostgreSQLConnection(PostgreSQLOptions(url))
        let start = ContinuousClock.now
        do throws(PostgreSQLFailure) {
            _ = try await connection.run(PostgreSQLStatement("SELECT 1"), within: .seconds(8))
            Issue.record("connected")
        } catch {
            #expect(error.kind == .notSent)
            #expect(error.reason.contains("refused"), "\(error.reason)")
            #expect(!error.reason.contains("canary"))
        }
        #expect(ContinuousClock.now - start < .seconds(6))
        #expect(connection.failure != nil)
        let again = ContinuousClock.now
        await #expect(throws: PostgreSQLFailure.self) { try await rows(connection, "SELECT 1") }
        #expect(ContinuousClock.now - again < .seconds(1))
        await connection.close(within: .seconds(3))
    }

    @Test func aServerThatStopsAnsweringIsNoticedAndUsedAgain() async throws {
        let own = try PostgreSQLTestServer()
        let connection = PostgreSQLConnection(PostgreSQLOptions(try PostgreSQLURL(own.url())))
        let pid = try #require(try await rows(connection, "SELECT pg_backend_pid()").first?.integer(0))
        kill(own.identifier, SIGSTOP)
        kill(Int32(pid), SIGSTOP)
        await #expect(throws: PostgreSQLFailure.self) {
            try await connection.run(PostgreSQLStatement("SELECT 1", isRepeatable: true), within: .seconds(1))
        }
        kill(own.identifier, SIGCONT)
        kill(Int32(pid), SIGCONT)
        let deadline = ContinuousClock.now.advanced(by: .seconds(20))
        var answer: Int64?
        while answer == nil, ContinuousClock.now < deadline {
            answer = try? await rows(connection, "SELECT 1").first?.integer(0)
            if answer == nil { try await Task.sleep(for: .milliseconds(200)) }
        }
        #expect(answer == 1)
        await connection.close(within: .seconds(3))
    }

    @Test func statementsThatWaitHaveABound() async throws {
        let connection = try connection()
        _ = try await rows(connection, "SELECT 1")
        // All are overdue, so the thread sends none of them. Filling the queue is slow on a busy machine, so it is done before the server sleeps.
        var overdue = FirstInFirstOut<PostgreSQLConnection.Work>()
        while overdue.count < PostgreSQLConnection.maximumQueue - 1 {
            let statement = PostgreSQLStatement("SELECT 1/0")
            overdue.append(PostgreSQLConnection.Work(statement: statement, deadline: .now, end: Promise()))
        }
        try await waitUntil("the first statement has ended") { connection.state.withLock { $0.begunAt == nil } }
        async let asleep = rows(connection, "SELECT pg_sleep(2)")
        try await waitUntil("the server sleeps") {
            connection.state.withLock { $0.begunAt != nil && $0.queue.isEmpty }
        }
        connection.state.withLock { $0.queue = overdue }
        async let last = rows(connection, "SELECT 7")
        try await waitUntil("the queue is full") {
            connection.state.withLock { $0.queue.count == PostgreSQLConnection.maximumQueue }
        }
        do throws(PostgreSQLFailure) {
            _ = try await connection.run(PostgreSQLStatement("SELECT 8"), within: .seconds(5))
            Issue.record("there was room for one more")
        } catch {
            #expect(error.kind == .notSent)
            #expect(error.reason == "too many statements wait for the server")
        }
        _ = try await asleep
        #expect(try await last.first?.integer(0) == 7)
        await connection.close(within: .seconds(3))
    }

    @Test func theFirstHostThatAnswersIsUsed() async throws {
        let folder = try Self.server.get().folder
        let url = try PostgreSQLURL("postgresql://postgres@/postgres?host=/nowhere,\(folder)/socket")
        let connection = PostgreSQLConnection(PostgreSQLOptions(url))
        #expect(try await rows(connection, "SELECT 1").first?.integer(0) == 1)
        await connection.close(within: .seconds(3))
    }

    @Test func tlsIsVerifiedUnlessTheHostIsThisMachine() throws {
        func settings(_ url: String, authorities: String? = nil) throws -> [String: String] {
            let options = PostgreSQLOptions(try PostgreSQLURL(url), authorities: authorities)
            return Dictionary(options.attempts[0].map { ($0.name, $0.value) }) { $1 }
        }
        func mode(_ url: String) throws -> String? { try settings(url)["sslmode"] }
        #expect(try mode("postgresql://db.example/x") == "verify-full")
        #expect(try mode("postgresql://10.0.0.1/x") == "verify-full")
        #expect(try mode("postgresql://?service=tokens") == "verify-full")
        #expect(try mode("postgresql://localhost/x") == "prefer")
        #expect(try mode("postgresql://db.example/x?sslmode=require") == "require")
        #expect(try mode("postgresql:///x?host=/run/postgresql") == nil)
        #expect(try settings("postgresql://db.example/x")["sslrootcert"] == SystemAuthorities.path)
        // Otherwise libpq would verify, which was not asked for.
        #expect(try settings("postgresql://localhost/x")["sslrootcert"] == nil)
        #expect(try settings("postgresql://db.example/x?sslmode=require")["sslrootcert"] == nil)
        let own = try settings("postgresql://localhost/x", authorities: "/ca.pem")
        #expect(own["sslmode"] == "verify-full" && own["sslrootcert"] == "/ca.pem")
    }
}
