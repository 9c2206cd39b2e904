import Foundation
import GatewayApp
import GatewayFiles
import GatewayHTTP
import Glibc
import Synchronization

/// What a line of progress says, and when: nothing about work that is quick, and no more than people can read.
struct ProgressMeter: Sendable {
    /// How long work lasts before the line is shown.
    static let delay: Duration = .milliseconds(500)
    /// The shortest time between two lines.
    static let interval: Duration = .milliseconds(200)

    private static let start = "\r"
    private static let eraseToEnd = "\u{1B}[K"

    private var label: String
    private var total: Int?
    private var unit = ""
    private var shownAt: Duration?

    init(_ label: String) { self.label = label }

    /// Starts the next step.
    ///
    /// - Parameter unit: Follows the numbers, such as `rows`.
    mutating func step(_ label: String, total: Int?, unit: String) {
        (self.label, self.total, self.unit) = (label, total, unit)
    }

    /// - Parameters:
    ///   - elapsed: The time since the work began.
    ///   - done: How much of this step is done.
    ///   - width: The columns of the terminal.
    /// - Returns: What to write; nil while it is too early.
    mutating func line(at elapsed: Duration, done: Int, width: Int) -> String? {
        guard elapsed >= Self.delay, elapsed - (shownAt ?? .zero) >= Self.interval else { return nil }
        shownAt = elapsed
        var text = label
        if let total, total > 0 {
            // More may come while it is read.
            text += ": \(done) of \(max(done, total)) \(unit) (\(min(100, done * 100 / total)) %)"
        } else if done > 0 {
            text += ": \(done) \(unit)"
        }
        text += ", \(ConfigUnits.countdown(Int(elapsed.components.seconds)))"
        // A line that is as long as the terminal is wide could not be erased.
        return Self.start + text.prefix(max(1, width - 1)) + Self.eraseToEnd
    }

    /// What removes the line; nil if there is none.
    mutating func erasure() -> String? {
        guard shownAt != nil else { return nil }
        shownAt = nil
        return Self.start + Self.eraseToEnd
    }
}

/// A progress line on the terminal, erased when the work is done.
final class ProgressLine: Sendable {
    private struct State {
        var meter: ProgressMeter
        var isEnded = false
    }

    private let state: Mutex<State>
    private let done = Atomic<Int>(0)
    private let begin = ContinuousClock.now

    private init(_ label: String) { state = Mutex(State(meter: ProgressMeter(label))) }

    /// Shows the line while `body` runs, if standard error is a terminal.
    ///
    /// - Parameter isHidden: For what programs read, such as JSON.
    static func during<Value, Failure>(
        _ label: String,
        unless isHidden: Bool,
        _ body: (ProgressLine?) async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        guard !isHidden, Console.isErrorTerminal, Console.environment("TERM") != "dumb" else {
            return try await body(nil)
        }
        let line = ProgressLine(label)
        // A separate thread, because the work may block every thread of the Swift runtime.
        Thread.detachNewThread {
            repeat { Thread.sleep(forTimeInterval: 0.2) } while line.show()
        }
        defer { line.end() }
        return try await body(line)
    }

    /// Starts the next step.
    func step(_ label: String, total: Int? = nil, unit: String = "") {
        state.withLock { $0.meter.step(label, total: total, unit: unit) }
        done.store(0, ordering: .relaxed)
    }

    func add(_ count: Int) { done.add(count, ordering: .relaxed) }

    func set(_ count: Int) { done.store(count, ordering: .relaxed) }

    /// A callback that updates the line with the number of rows done.
    func counter(_ label: String) -> @Sendable (_ done: Int, _ total: Int) -> Void {
        { done, total in
            if done == 0 { self.step(label, total: total, unit: "rows") }
            self.set(done)
        }
    }

    /// Takes the line away before something else is written to the terminal. It comes back by itself.
    func erase() { state.withLock { Self.write($0.meter.erasure()) } }

    private func end() {
        state.withLock {
            $0.isEnded = true
            Self.write($0.meter.erasure())
        }
    }

    /// - Returns: false when the work has ended.
    private func show() -> Bool {
        let (elapsed, done) = (ContinuousClock.now - begin, done.load(ordering: .relaxed))
        let width = Self.width
        return state.withLock {
            guard !$0.isEnded else { return false }
            // Within the lock, so that nothing is written after the end.
            Self.write($0.meter.line(at: elapsed, done: done, width: width))
            return true
        }
    }

    private static func write(_ text: String?) {
        if let text { Console.writeError(text) }
    }

    private static var width: Int {
        var size = winsize()
        guard unsafe ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }
}
