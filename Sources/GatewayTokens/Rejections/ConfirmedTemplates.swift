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
