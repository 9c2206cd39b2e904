import Synchronization

#if canImport(Glibc)
    import Glibc
#endif

/// Gives memory back to the system after work that needed much of it for a moment: the allocator would keep it for the next time.
package final class MemoryTrim: Sendable {
    private let isWave = Atomic<Bool>(false)

    /// Bytes of unfinished heads that make a wave, and at which it is over.
    private static let high = 8 << 20
    private static let low = 1 << 20

    /// A wave of unfinished heads is such work. Call it with the bytes of all unfinished heads, whenever they change.
    func changed(to bytes: Int) {
        if bytes >= Self.high {
            if !isWave.load(ordering: .relaxed) { isWave.store(true, ordering: .relaxed) }
        } else if bytes <= Self.low, isWave.load(ordering: .relaxed), isWave.exchange(false, ordering: .relaxed) {
            // Connections close a little later than their heads end.
            Self.later()
        }
    }

    /// It takes milliseconds, so it runs on no event loop.
    package static func later(by time: Duration = .seconds(1)) {
        Task.detached(priority: .background) {
            try? await Task.sleep(for: time)
            trim()
        }
    }

    /// At once. It takes milliseconds, so do not call it on an event loop.
    package static func now() { trim() }

    /// `malloc_trim` of glibc, which its module does not declare; does nothing where there is none.
    private static func trim() {
        #if canImport(Glibc)
            guard let function = unsafe dlsym(nil, "malloc_trim") else { return }
            let trim = unsafe unsafeBitCast(function, to: (@convention(c) (Int) -> Int32).self)
            _ = trim(0)
        #endif
    }
}
