import Dispatch
import GatewayHTTP
import GatewayTesting
import Logging
import NIOPosix
import Synchronization
import Testing

@testable import GatewayApp

@Suite(.timeLimit(.minutes(5)))
struct LogTests {
    private final class Lines: Sendable {
        private let text = Mutex("")
        var all: String { text.withLock { $0 } }
        func add(_ line: String) { text.withLock { $0 += line } }
    }

    private func log(_ format: LogOutput.Format, _ message: String, _ metadata: Logger.Metadata) -> String {
        let lines = Lines()
        let output = LogOutput(format: format, clock: SystemClock(), write: { lines.add($0) })
        output.logger("test", level: .info).info("\(message)", metadata: metadata)
        return lines.all
    }

    @Test(arguments: LogOutput.Format.allCases)
    func textFromOutsideCannotForgeALine(_ format: LogOutput.Format) {
        let hostile = "x\n2026-03-01 error Forged\r\u{1B}[2J\u{2028}\u{202E}"
        let line = log(format, "Request", ["path": "\(hostile)"])
        #expect(line.filter { $0.isNewline }.count == 1)
        #expect(line.last == "\n")
        #expect(!line.unicodeScalars.contains("\u{1B}"))
        #expect(!line.unicodeScalars.contains("\u{202E}"))
    }

    @Test func jsonLinesAreJSON() {
        let line = log(.json, "A \"quoted\" message", ["key": "\u{1}\\\"\u{7F}", "other": "Ünïcode"])
        let value = JSONValue(Array(line.utf8))
        #expect(value?["message"]?.string == "A \"quoted\" message")
        #expect(value?["key"]?.string == "\u{1}\\\"\u{7F}")
        #expect(value?["other"]?.string == "Ünïcode")
        #expect(value?["level"]?.string == "info")
    }

    @Test(arguments: LogOutput.Format.allCases)
    func aFieldIsBounded(_ format: LogOutput.Format) {
        let line = log(format, "Request", ["path": "\(String(repeating: "a", count: 100_000))"])
        #expect(line.utf8.count < 2 * LogText.fieldLimit)
    }

    @Test(arguments: LogOutput.Format.allCases)
    func aSecretIsNotShown(_ format: LogOutput.Format) {
        let line = log(format, "Token obtained", ["token": "\(Secret("s3cret-value"))"])
        #expect(!line.contains("s3cret"))
    }

    @Test func aReaderThatStopsStopsNobodyAndIsToldWhatItMissed() async throws {
        let pool = NIOThreadPool(numberOfThreads: 1)
        pool.start()
        let gate = DispatchSemaphore(value: 0)
        let lines = Lines()
        let hasBegun = Watched(false)
        let writer = LineWriter(
            pool: pool,
            write: { bytes in
                hasBegun.update { $0 = true }
                gate.wait()
                lines.add(String(decoding: bytes, as: UTF8.self))
            },
            lossNotice: { "lost \($0)\n" }
        )
        let line = String(repeating: "a", count: (1 << 10) - 1) + "\n"
        writer.add("first\n")
        try await hasBegun.until { $0 }
        for _ in 0..<3000 { writer.add(line) }
        for _ in 0..<10 { gate.signal() }
        await writer.flush()
        #expect(lines.all == "first\n" + String(repeating: line, count: 1024) + "lost \(3000 - 1024)\n")
        writer.add("again\n")
        await writer.flush()
        #expect(lines.all.hasSuffix("again\n"))
        try await pool.shutdownGracefully()
    }
}
