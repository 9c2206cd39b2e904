import Synchronization

/// When engines were first handed a token generation for a path template, without a report of its rejection since. Shared by all
/// workers, without a lock.
///
/// Of fixed size, as ``ConfirmedTemplates``: what is lost to another template is an acceptance that is not seen.
package final class HandedOutTemplates: Sendable {
    package static let capacity = 512
    /// The time has the low bits of an entry, in seconds; it wraps after half a year.
    private static let timeMask: UInt64 = 0xFF_FFFF

    private final class Table: Sendable {
        /// 0 is a slot that is empty.
        let slots = InlineArray<512, Atomic<UInt64>> { _ in Atomic(0) }
    }

    /// Made for the first engine that asks.
    private let table = AtomicLazyReference<Table>()

    package init() {}

    package func note(_ template: PathTemplate, generation: Int, at now: MonotonicTime) {
        let table = self.table.load() ?? self.table.storeIfNil(Table())
        let (slot, tag) = (Self.slot(of: template), Self.tag(template, generation))
        guard table.slots[slot].load(ordering: .relaxed) & ~Self.timeMask != tag else { return }
        table.slots[slot].store(tag | Self.seconds(now), ordering: .relaxed)
    }

    /// - Returns: How long ago it was handed out first; nil when it was not, or when a rejection has been reported since.
    package func take(_ template: PathTemplate, generation: Int, at now: MonotonicTime) -> Duration? {
        guard let table = table.load() else { return nil }
        let slot = Self.slot(of: template)
        let entry = table.slots[slot].load(ordering: .relaxed)
        guard entry & ~Self.timeMask == Self.tag(template, generation) else { return nil }
        table.slots[slot].store(0, ordering: .relaxed)
        return .seconds((Self.seconds(now) &- entry) & Self.timeMask)
    }

    private static func slot(of template: PathTemplate) -> Int { Int(truncatingIfNeeded: template.hash &>> 55) }

    private static func tag(_ template: PathTemplate, _ generation: Int) -> UInt64 {
        let hash = template.hash &+ UInt64(truncatingIfNeeded: generation) &* 0x9E37_79B9_7F4A_7C15
        return (hash | 1 &<< 24) & ~timeMask
    }

    private static func seconds(_ time: MonotonicTime) -> UInt64 {
        UInt64(max((time - MonotonicTime(nanoseconds: 0)).components.seconds, 0)) & timeMask
    }
}
