import GatewayFiles

/// Numbers texts in the order in which they are first seen, without making a string of each one that is seen again.
struct TextNumbers {
    private(set) var texts: [[UInt8]] = []
    private var hashes: [Int] = []
    /// For each slot of an open-addressed table: the number of a text and one, or 0. Twice as many as texts at least.
    private var slots = [Int](repeating: 0, count: 64)

    mutating func number(of text: RawSpan) -> Int {
        var hasher = Hasher()
        unsafe text.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
        let hash = hasher.finalize()
        var slot = first(hash)
        while slots[slot] != 0 {
            let number = slots[slot] - 1
            if hashes[number] == hash, text.holds(texts[number]) { return number }
            slot = next(slot)
        }
        texts.append(unsafe text.withUnsafeBytes { unsafe Array($0) })
        hashes.append(hash)
        slots[slot] = texts.count
        if texts.count * 2 > slots.count { grow() }
        return texts.count - 1
    }

    func text(_ number: Int) -> String { String(decoding: texts[number], as: UTF8.self) }

    private func first(_ hash: Int) -> Int { hash & (slots.count - 1) }

    private func next(_ slot: Int) -> Int { (slot + 1) & (slots.count - 1) }

    private mutating func grow() {
        slots = [Int](repeating: 0, count: slots.count * 2)
        for number in hashes.indices {
            var slot = first(hashes[number])
            while slots[slot] != 0 { slot = next(slot) }
            slots[slot] = number + 1
        }
    }
}
