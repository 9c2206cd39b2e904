import Synchronization

/// Lines that arrive on another thread.
final class Rows: Sendable {
    private let lines = Mutex<[String]>([])

    var all: [String] { lines.withLock { $0 } }

    func add(_ line: String) -> Bool {
        lines.withLock { $0.append(line) }
        return true
    }
}

/// One number that arrives from within a closure.
final class Mailbox: Sendable {
    private let content = Mutex<Int?>(nil)

    var value: Int? { content.withLock { $0 } }

    func put(_ value: Int) { content.withLock { $0 = value } }
}
