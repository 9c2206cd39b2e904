/// When each of many things is due: a binary heap that knows the place of each.
package struct DueTimes<ID: Hashable & Sendable>: Sendable {
    private struct Entry {
        let id: ID
        var due: MonotonicTime
    }

    private var heap: [Entry] = []
    private var places: [ID: Int] = [:]

    package init() {}

    /// The earliest time.
    package var first: MonotonicTime? { heap.first?.due }

    package mutating func set(_ due: MonotonicTime, of id: ID) {
        guard let place = places[id] else {
            heap.append(Entry(id: id, due: due))
            places[id] = heap.count - 1
            moveUp(heap.count - 1)
            return checkInvariants(of: id)
        }
        heap[place].due = due
        moveUp(place)
        if let place = places[id] { moveDown(place) }
        checkInvariants(of: id)
    }

    package mutating func remove(_ id: ID) {
        guard let place = places.removeValue(forKey: id), let last = heap.popLast(), place < heap.count else { return }
        put(last, at: place)
        moveUp(place)
        if let place = places[last.id] { moveDown(place) }
        checkInvariants(of: last.id)
    }

    /// - Returns: Those that are due, the earliest first. They are due no more.
    package mutating func removeAll(until now: MonotonicTime) -> [ID] {
        var due: [ID] = []
        while let first = heap.first, first.due <= now {
            due.append(first.id)
            remove(first.id)
        }
        return due
    }

    private mutating func put(_ entry: Entry, at place: Int) {
        heap[place] = entry
        places[entry.id] = place
    }

    private mutating func moveUp(_ start: Int) {
        let entry = heap[start]
        var place = start
        while place > 0 {
            let parent = (place - 1) / 2
            guard entry.due < heap[parent].due else { break }
            put(heap[parent], at: place)
            place = parent
        }
        put(entry, at: place)
    }

    private mutating func moveDown(_ start: Int) {
        let entry = heap[start]
        var place = start
        while 2 * place + 1 < heap.count {
            var child = 2 * place + 1
            if child + 1 < heap.count, heap[child + 1].due < heap[child].due { child += 1 }
            guard heap[child].due < entry.due else { break }
            put(heap[child], at: place)
            place = child
        }
        put(entry, at: place)
    }

    /// - Parameter id: The one that was moved.
    private func checkInvariants(of id: ID) {
        assert(heap.count == places.count, "A time was lost, or is in the heap twice.")
        assert(places[id].map { heap[$0].id == id && isOrdered(at: $0) } ?? false, "A time is not in its place.")
    }

    /// Not before what is above it, and not behind what is below it.
    private func isOrdered(at place: Int) -> Bool {
        (place == 0 || heap[(place - 1) / 2].due <= heap[place].due)
            && [2 * place + 1, 2 * place + 2].allSatisfy { $0 >= heap.count || heap[place].due <= heap[$0].due }
    }
}
