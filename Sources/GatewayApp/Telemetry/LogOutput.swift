package import GatewayHTTP
import Glibc
package import Logging
import Metrics
import NIOPosix
import Synchronization

/// Where log lines go and how they look.
package final class LogOutput: Sendable {
    package enum Format: String, CaseIterable, Sendable {
        /// `09:30:00.250 info  Token renewed  credential=box generation=3`, for people.
        case text
        /// One JSON object per line, for programs.
        case json
    }

    package let format: Format
    private let clock: any GatewayClock
    private let write: @Sendable (String) -> Void

    package init(
        format: Format,
        clock: any GatewayClock = SystemClock(),
        write: @escaping @Sendable (String) -> Void
    ) {
        self.format = format
        self.clock = clock
        self.write = write
    }

    /// Text on a terminal, JSON otherwise. Requests never wait for the reader; see ``LineWriter``.
    package static let standardError: LogOutput = LogOutput(
        format: Console.isErrorTerminal ? .text : .json,
        write: { errorWriter.add($0) }
    )

    /// Several lines for people, such as the mistakes of a configuration, to which `line` refers.
    ///
    /// On a terminal they stand below the line as they are. Otherwise they are a field of it, because
    /// collectors of JSON logs take any other line for an error.
    package static func logToStandardError(_ text: String, below line: (_ text: Logger.Metadata) -> Void) {
        guard standardError.format == .text else { return line(["text": "\(text)"]) }
        line([:])
        errorWriter.add(text)
    }

    /// Writes what has been logged, if that takes no longer than a second; called when the process ends.
    package static func flushStandardError() async {
        // Most commands log nothing, and need no thread for it.
        if hasWriter.load(ordering: .acquiring) { await errorWriter.flush() }
    }

    /// Whether ``errorWriter`` was ever used.
    private static let hasWriter = Atomic<Bool>(false)

    private static let errorWriter: LineWriter = {
        hasWriter.store(true, ordering: .releasing)
        let pool = NIOThreadPool(numberOfThreads: 1)
        pool.start()
        return LineWriter(
            pool: pool,
            write: { Console.writeError($0) },
            lossNotice: { standardError.lossNotice(of: $0) }
        )
    }()

    /// Not logged but made: it goes behind the lines that were kept.
    private func lossNotice(of lines: Int) -> String {
        Counter(label: "gateway_log_lines_lost_total").increment(by: lines)
        let message = "Log lines were lost: they were not read in time"
        return line(.warning, message, label: "authgateway.log", metadata: ["lines": "\(lines)"])
    }

    package func logger(_ label: String, level: Logger.Level) -> Logger {
        Logger(label: label) { StreamLogHandler(label: $0, output: self, logLevel: level) }
    }

    fileprivate func emit(_ event: LogEvent, label: String, metadata: Logger.Metadata) {
        write(line(event.level, event.message.description, label: label, metadata: metadata))
    }

    private func line(
        _ level: Logger.Level,
        _ message: String,
        label: String,
        metadata: Logger.Metadata
    ) -> String {
        let fields = metadata.sorted { $0.key < $1.key }.map { ($0.key, "\($0.value)") }
        return switch format {
        case .text: textLine(level, message, fields)
        case .json: jsonLine(level, message, label, fields)
        }
    }

    private func textLine(_ level: Logger.Level, _ message: String, _ fields: [(String, String)]) -> String {
        let time = clock.now().wall.rfc3339.dropFirst(11).dropLast()
        let level = "\(level)".padding(to: 8)
        let data = fields.map { " \($0)=\(LogText.quoted($1))" }.joined()
        return "\(time) \(level) \(LogText.clean(message))\(data.isEmpty ? "" : " \(data)")\n"
    }

    private func jsonLine(
        _ level: Logger.Level,
        _ message: String,
        _ label: String,
        _ fields: [(String, String)]
    ) -> String {
        let head = [
            ("at", clock.now().wall.rfc3339), ("level", "\(level)"), ("message", message), ("logger", label),
        ]
        let pairs = (head + fields).map { "\(LogText.json($0)):\(LogText.json($1))" }
        return "{\(pairs.joined(separator: ","))}\n"
    }
}

/// A swift-log handler that writes whole lines, so that lines of different threads do not mix.
private struct StreamLogHandler: LogHandler {
    let label: String
    let output: LogOutput
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let all = event.metadata.map { metadata.merging($0) { _, new in new } } ?? metadata
        output.emit(event, label: label, metadata: all)
    }
}

/// Writes lines from its own thread, so that a reader that stops reading does not block requests.
///
/// What does not fit into the buffer is lost, counted, and said as soon as there is room again.
final class LineWriter: Sendable {
    static let capacityBytes = 1 << 20

    private struct State {
        var pending: [UInt8] = []
        var lost = 0
        var isWriting = false
    }

    private let state = Mutex(State())
    private let pool: NIOThreadPool
    private let write: @Sendable ([UInt8]) -> Void
    private let lossNotice: @Sendable (_ lines: Int) -> String

    /// - Parameters:
    ///   - write: May block for as long as it likes.
    ///   - lossNotice: The line that says how many were lost.
    init(
        pool: NIOThreadPool,
        write: @escaping @Sendable ([UInt8]) -> Void,
        lossNotice: @escaping @Sendable (_ lines: Int) -> String
    ) {
        self.pool = pool
        self.write = write
        self.lossNotice = lossNotice
    }

    /// Never blocks.
    func add(_ line: String) {
        let begins = state.withLock { state in
            guard state.pending.count + line.utf8.count <= Self.capacityBytes else {
                state.lost += 1
                return false
            }
            state.pending.append(contentsOf: line.utf8)
            defer { state.isWriting = true }
            return !state.isWriting
        }
        if begins { pool.submit { [self] _ in drain() } }
    }

    private func drain() {
        while let bytes = next() { write(bytes) }
    }

    private func next() -> [UInt8]? {
        let (bytes, lost) = state.withLock { state in
            defer { (state.pending, state.lost) = ([], 0) }
            state.isWriting = !state.pending.isEmpty
            return (state.pending, state.lost)
        }
        guard !bytes.isEmpty else { return nil }
        return lost == 0 ? bytes : bytes + Array(lossNotice(lost).utf8)
    }

    /// Waits until everything is written, at most a second: for the end of the process.
    func flush() async {
        for _ in 0..<100 where state.withLock(\.isWriting) {
            guard (try? await Task.sleep(for: .milliseconds(10))) != nil else { return }
        }
    }
}
