package import GatewayHTTP
import Synchronization

/// Which path templates of a route have had a 2xx under a token generation.
package final class ConfirmedTemplates: Sendable {
    private let table = TemplateTable()

    /// The newest generation under which any template has had a 2xx.
    private let newest = Atomic(Int.min)

    package init() {}

    /// A response to this template was a 2xx. Mostly one read: to write would take the slot from the cache of other processors.
    package func confirm(_ template: PathTemplate, generation: Int) {
        let entry = Self.entry(template, generation)
        if newest.load(ordering: .relaxed) < generation { newest.max(generation, ordering: .relaxed) }
        guard table[template] != entry else { return }
        table.store(entry, for: template)
    }

    package func isConfirmed(_ template: PathTemplate, generation: Int) -> Bool {
        table[template] == Self.entry(template, generation)
    }

    /// Whether the token of this generation has worked anywhere.
    package func hasWorked(generation: Int) -> Bool { newest.load(ordering: .relaxed) >= generation }

    private static func entry(_ template: PathTemplate, _ generation: Int) -> UInt64 {
        TemplateTable.hash(template, generation) | 1
    }
}

/// When engines were first handed a token generation for a path template, without a report of its rejection since.
///
/// The table has a fixed size, like every ``TemplateTable``: an entry that is lost to another template is an acceptance that
/// is not seen.
package final class HandedOutTemplates: Sendable {
    package static let capacity = TemplateTable.capacity
    /// The time has the low bits of an entry, in seconds; it wraps after half a year.
    private static let timeMask: UInt64 = 0xFF_FFFF

    private let table = TemplateTable()

    package init() {}

    package func note(_ template: PathTemplate, generation: Int, at now: MonotonicTime) {
        let tag = Self.tag(template, generation)
        guard table[template] & ~Self.timeMask != tag else { return }
        table.store(tag | Self.seconds(now), for: template)
    }

    /// - Returns: How long ago it was handed out first; nil when it was not, or when a rejection has been reported since.
    package func take(_ template: PathTemplate, generation: Int, at now: MonotonicTime) -> Duration? {
        let entry = table[template]
        guard entry & ~Self.timeMask == Self.tag(template, generation) else { return nil }
        table.store(0, for: template)
        return .seconds((Self.seconds(now) &- entry) & Self.timeMask)
    }

    private static func tag(_ template: PathTemplate, _ generation: Int) -> UInt64 {
        (TemplateTable.hash(template, generation) | 1 &<< 24) & ~timeMask
    }

    private static func seconds(_ time: MonotonicTime) -> UInt64 {
        UInt64(max((time - MonotonicTime(nanoseconds: 0)).components.seconds, 0)) & timeMask
    }
}

/// One entry of 64 bits for each path template of a route, 0 where there is none. Shared by all workers, without a lock.
///
/// The table has a fixed size: a template has one slot, and the template that comes last has it. One that is in use comes back with its
/// next response. If the first one kept the slot, a client could fill the table before others come.
private struct TemplateTable: ~Copyable, Sendable {
    static let capacity = 512

    private final class Slots: Sendable {
        let values = InlineArray<512, Atomic<UInt64>> { _ in Atomic(0) }
    }

    /// Made with the first entry: of many credentials, few are in use at a time.
    private let slots = AtomicLazyReference<Slots>()

    subscript(template: PathTemplate) -> UInt64 {
        slots.load()?.values[Self.slot(of: template)].load(ordering: .relaxed) ?? 0
    }

    func store(_ entry: UInt64, for template: PathTemplate) {
        let slots = self.slots.load() ?? self.slots.storeIfNil(Slots())
        slots.values[Self.slot(of: template)].store(entry, ordering: .relaxed)
    }

    private static func slot(of template: PathTemplate) -> Int { Int(truncatingIfNeeded: template.hash &>> 55) }

    /// Differs between the generations of one template.
    static func hash(_ template: PathTemplate, _ generation: Int) -> UInt64 {
        template.hash &+ UInt64(truncatingIfNeeded: generation) &* 0x9E37_79B9_7F4A_7C15
    }
}
