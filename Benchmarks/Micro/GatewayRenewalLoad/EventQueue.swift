/// What happens next: a binary heap of (time, number of the token).
struct EventQueue {
    struct Event {
        /// In milliseconds.
        let at: Int64
        let token: Int32
        let kind: Kind
    }

    enum Kind: UInt8 {
        /// The machine asked to be woken.
        case wake
        /// A request needs the token.
        case demand
        /// The authority has answered.
        case answer
    }

    private var heap: [Event] = []

    mutating func add(_ event: Event) {
        heap.append(event)
        var child = heap.count - 1
        while child > 0, case let parent = (child - 1) / 2, heap[child].at < heap[parent].at {
            heap.swapAt(child, parent)
            child = parent
        }
    }

    mutating func next() -> Event? {
        guard let first = heap.first, let last = heap.popLast() else { return nil }
        guard !heap.isEmpty else { return first }
        heap[0] = last
        var parent = 0
        while case let left = 2 * parent + 1, left < heap.count {
            let right = left + 1
            let child = right < heap.count && heap[right].at < heap[left].at ? right : left
            guard heap[child].at < heap[parent].at else { break }
            heap.swapAt(child, parent)
            parent = child
        }
        return first
    }
}
