/// A queue whose first element leaves without moving the others.
package struct FirstInFirstOut<Element: Sendable>: Sendable {
    private var elements: [Element] = []
    private var head = 0

    package init() {}

    package var isEmpty: Bool { head == elements.count }
    package var count: Int { elements.count - head }
    package var first: Element? { isEmpty ? nil : elements[head] }

    package mutating func append(_ element: Element) { elements.append(element) }

    package mutating func removeFirst() -> Element? {
        guard head < elements.count else { return nil }
        defer {
            head += 1
            if head == elements.count {
                (elements, head) = ([], 0)
            } else if head >= 64, head * 2 > elements.count {
                elements.removeFirst(head)
                head = 0
            }
            assert(head == 0 || head < elements.count, "The queue begins behind its last element.")
            assert(head < 64 || head * 2 <= elements.count, "Elements that have left take most of the memory.")
        }
        return elements[head]
    }
}
