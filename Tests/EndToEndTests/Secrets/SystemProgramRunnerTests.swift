import Foundation
import GatewayHTTP
import Testing

@testable import GatewayApp

@Suite("Programs of the configuration", .timeLimit(.minutes(5)))
struct SystemProgramRunnerTests {
    private let runner = SystemProgramRunner(environment: ["PATH": "/usr/bin:/bin", "HOME": "/home/ada", "SECRET": "x"])

    private func run(
        _ command: String...,
        environment: [TokenProgram.Variable] = [],
        input: Secret? = nil,
        within deadline: Duration = .seconds(20)
    ) async -> Result<String, ProgramFailure> {
        let program = TokenProgram(command: command, environment: environment, timeout: deadline)
        return await runner.run(program, input: input, deadline: deadline).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test func aProgramSeesLittleOfTheEnvironment() async throws {
        let seen = try await run("env", environment: [TokenProgram.Variable("STATED", Secret("yes"))]).get()
        #expect(Set(seen.split(separator: "\n")) == ["PATH=/usr/bin:/bin", "HOME=/home/ada", "STATED=yes"])
    }

    @Test func inputIsReadToItsEnd() async throws {
        let large = String(repeating: "secret\n", count: 30_000)
        #expect(try await run("cat", input: Secret(large)).get() == large)
        #expect(try await run("cat").get().isEmpty)
        // Whoever does not read it is not waited for.
        #expect(try await run("echo", "done", input: Secret(large)).get() == "done\n")
    }

    @Test func whatWentWrongIsSaidWithoutWhatWasPrinted() async {
        guard case .failure(let failed) = await run("sh", "-c", "echo canary; echo canary >&2; exit 4") else {
            Issue.record("it ended well")
            return
        }
        #expect(failed.reason == .failed)
        #expect(failed.message == "exited with status 4; run it by hand to see why")
        #expect(!"\(failed)".contains("canary"))
        guard case .failure(let missing) = await run("/nowhere/program") else {
            Issue.record("it ran")
            return
        }
        #expect(missing.reason == .notFound)
        #expect(missing.message.hasPrefix("cannot be started: "))
    }

    @Test func programsStopAtTheDeadlineWithTheirChildren() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "child-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: file) }
        let script = "sleep 300 & echo $! > \(file); wait"
        let end = await run("sh", "-c", script, within: .milliseconds(500))
        #expect(end == .failure(ProgramFailure(.timedOut, "did not exit within 500ms")))
        let child = try #require(
            pid_t(try String(contentsOfFile: file, encoding: .utf8).trimmingCharacters(in: .newlines))
        )
        // The signal is sent; that it ends is the system's, which may take a moment.
        let deadline = ContinuousClock.now + .seconds(10)
        while runs(child), ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(10)) }
        #expect(!runs(child))
    }

    @Test func childrenThatAProgramLeavesEndWithIt() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "child-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: file) }
        let started = ContinuousClock.now
        // It has the program's standard output open.
        #expect(try await run("sh", "-c", "sleep 300 & echo $! > \(file); echo done").get() == "done\n")
        #expect(ContinuousClock.now - started < .seconds(10))
        let child = try #require(
            pid_t(try String(contentsOfFile: file, encoding: .utf8).trimmingCharacters(in: .newlines))
        )
        let deadline = ContinuousClock.now + .seconds(10)
        while runs(child), ContinuousClock.now < deadline { try await Task.sleep(for: .milliseconds(10)) }
        #expect(!runs(child))
    }

    /// Nobody may have reaped it yet, but it runs no more.
    private func runs(_ process: pid_t) -> Bool {
        guard let state = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8) else { return false }
        return !state.contains(") Z ")
    }

    @Test func aProgramIsGivenUpWithItsTask() async {
        let task = Task { await run("sleep", "300", within: .seconds(300)) }
        task.cancel()
        #expect(await task.value == .failure(ProgramFailure(.timedOut, "was given up")))
    }

    @Test func manyRunAtATimeAndNoneHoldsTheOutputOfAnother() async {
        await withTaskGroup(of: Bool.self) { group in
            for index in 0..<20 {
                group.addTask {
                    await run("sh", "-c", "echo \(index); sleep 0.0\(index % 10)") == .success("\(index)\n")
                }
            }
            for await isRight in group { #expect(isRight) }
        }
    }

    // MARK: Bounds

    @Test func theOutputOfAProgramIsLimited() async throws {
        func printed(_ count: Int) async -> Result<String, ProgramFailure> {
            await run("sh", "-c", "head -c \(count) /dev/zero | tr '\\0' x")
        }
        let most = SystemProgramRunner.largestOutput
        #expect(try await printed(most).get().utf8.count == most)
        guard case .failure = await printed(most + 1) else {
            Issue.record("more was taken")
            return
        }
    }

    @Test func theInputOfAProgramIsLimited() async throws {
        let longest = String(repeating: "x", count: SpawnedProgram.largestInput)
        #expect(try await run("wc", "-c", input: Secret(longest)).get() == "\(longest.utf8.count)\n")
        guard case .failure(let failure) = await run("wc", "-c", input: Secret(longest + "x")) else {
            Issue.record("more was given")
            return
        }
        #expect(failure.reason == .notStarted)
    }
}
