import Synchronization

/// One entry of 64 bits for each path template of a route, 0 where there is none. Shared by all workers, without a lock.
///
/// Of fixed size: a template has one slot, and the template that comes last has it. One that is in use comes back with its
/// next response. If the first one kept the slot, a client could fill the table before others come.
struct TemplateTable: ~Copyable, Sendable {
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
