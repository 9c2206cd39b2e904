import GatewayCore
import Synchronization

#if canImport(Glibc)
    import Glibc
#endif

/// Gives memory back to the system after a wave of unfinished heads: the allocator would keep it for the next one.
final class MemoryTrim: Sendable {
    private let isWave = Atomic<Bool>(false)

    /// Bytes of unfinished heads that make a wave, and at which it is over.
    private static let high = 8 << 20
    private static let low = 1 << 20

    /// Call it with the bytes of all unfinished heads, whenever they change.
    func changed(to bytes: Int) {
        if bytes >= Self.high {
            if !isWave.load(ordering: .relaxed) { isWave.store(true, ordering: .relaxed) }
        } else if bytes <= Self.low, isWave.load(ordering: .relaxed), isWave.exchange(false, ordering: .relaxed) {
            // It takes milliseconds: not on an event loop. Connections close a little later than their heads end.
            Task.detached(priority: .background) {
                try? await Task.sleep(for: .seconds(1))
                Self.trim()
            }
        }
    }

    /// `malloc_trim` of glibc, which its module does not declare; does nothing where there is none.
    private static func trim() {
        #if canImport(Glibc)
            guard let function = unsafe dlsym(nil, "malloc_trim") else { return }
            let trim = unsafe unsafeBitCast(function, to: (@convention(c) (Int) -> Int32).self)
            _ = trim(0)
        #endif
    }
}
