package import NIOPosix
import Synchronization

/// Writes lines from its own thread, so that a reader that stops reading does not block requests.
///
/// What does not fit into the buffer is lost, counted, and said as soon as there is room again.
package final class LineWriter: Sendable {
    package static let capacityBytes = 1 << 20

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
    package init(
        pool: NIOThreadPool,
        write: @escaping @Sendable ([UInt8]) -> Void,
        lossNotice: @escaping @Sendable (_ lines: Int) -> String
    ) {
        self.pool = pool
        self.write = write
        self.lossNotice = lossNotice
    }

    /// Never blocks.
    package func add(_ line: String) {
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
    package func flush() async {
        for _ in 0..<100 where state.withLock(\.isWriting) {
            guard (try? await Task.sleep(for: .milliseconds(10))) != nil else { return }
        }
    }
}
