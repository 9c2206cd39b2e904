/// Doubly linked lists of slot numbers, so that a slot leaves the middle of a list in a few instructions.
///
/// The links of all slots are in one array. A slot is in one list at most.
struct LinkedSlots: Sendable {
    struct List: Sendable {
        fileprivate(set) var first = none
        fileprivate(set) var last = none

        var isEmpty: Bool { first == none }
    }

    private struct Links: Sendable {
        var previous = none
        var next = none
    }

    private static let none = -1
    private var links: [Links] = []

    /// The first slot of the list, from its start, that meets the condition.
    func first(in list: List, where isFound: (Int) -> Bool) -> Int? {
        var slot = list.first
        while slot != Self.none {
            if isFound(slot) { return slot }
            slot = links[slot].next
        }
        return nil
    }

    mutating func append(_ slot: Int, to list: inout List) {
        assert(list.isEmpty || links[list.last].next == Self.none, "The last slot of a list has a successor.")
        while links.count <= slot { links.append(Links()) }
        links[slot] = Links(previous: list.last, next: Self.none)
        if list.isEmpty { list.first = slot } else { links[list.last].next = slot }
        list.last = slot
    }

    mutating func remove(_ slot: Int, from list: inout List) {
        let (previous, next) = (links[slot].previous, links[slot].next)
        assert(
            previous == Self.none ? list.first == slot : links[previous].next == slot,
            "A slot is not where its list has it."
        )
        assert(
            next == Self.none ? list.last == slot : links[next].previous == slot,
            "A slot is not where its list has it, from the end."
        )
        if previous == Self.none { list.first = next } else { links[previous].next = next }
        if next == Self.none { list.last = previous } else { links[next].previous = previous }
        assert((list.first == Self.none) == (list.last == Self.none), "A list has a start without an end.")
    }
}
