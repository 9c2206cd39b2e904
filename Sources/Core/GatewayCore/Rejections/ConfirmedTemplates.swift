import Synchronization

/// Which path templates of a route have had a 2xx under a token generation. Shared by all workers, without a lock.
///
/// Of fixed size: a template has one slot, and the template that comes last has it. One that is in use comes back with its
/// next response. If the first one kept the slot, a client could fill the table before others come.
package final class ConfirmedTemplates: Sendable {
    package static let capacity = 512

    private final class Table: Sendable {
        /// 0 is a slot that is empty.
        let slots = InlineArray<512, Atomic<UInt64>> { _ in Atomic(0) }
    }

    /// Made with the first response: of many credentials, few are in use at a time.
    private let table = AtomicLazyReference<Table>()

    /// The newest generation under which any template has had a 2xx.
    private let newest = Atomic(Int.min)

    package init() {}

    /// A response to this template was a 2xx. Mostly one read: to write would take the slot from the cache of other processors.
    package func confirm(_ template: PathTemplate, generation: Int) {
        let (slot, entry) = (Self.slot(of: template), Self.entry(template, generation))
        if newest.load(ordering: .relaxed) < generation { newest.max(generation, ordering: .relaxed) }
        let table = self.table.load() ?? self.table.storeIfNil(Table())
        guard table.slots[slot].load(ordering: .relaxed) != entry else { return }
        table.slots[slot].store(entry, ordering: .relaxed)
    }

    package func isConfirmed(_ template: PathTemplate, generation: Int) -> Bool {
        guard let table = table.load() else { return false }
        return table.slots[Self.slot(of: template)].load(ordering: .relaxed) == Self.entry(template, generation)
    }

    /// Whether the token of this generation has worked anywhere.
    package func hasWorked(generation: Int) -> Bool { newest.load(ordering: .relaxed) >= generation }

    private static func slot(of template: PathTemplate) -> Int { Int(truncatingIfNeeded: template.hash &>> 55) }

    private static func entry(_ template: PathTemplate, _ generation: Int) -> UInt64 {
        (template.hash &+ UInt64(truncatingIfNeeded: generation) &* 0x9E37_79B9_7F4A_7C15) | 1
    }
}
