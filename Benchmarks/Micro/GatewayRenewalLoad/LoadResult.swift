/// What the authority and the clients saw, by second.
struct LoadResult {
    private(set) var calls: [Int]
    private var liveBySecond: [Int]
    var live = 0
    var successes = 0
    var failures = 0
    /// Requests that were refused because there was no token.
    var refused = 0
    var storms = 0

    init(seconds: Int) {
        calls = Array(repeating: 0, count: seconds)
        liveBySecond = Array(repeating: -1, count: seconds)
    }

    /// - Returns: The how-many-th call of its second it is.
    mutating func count(callAt second: Int) -> Int {
        guard calls.indices.contains(second) else { return 1 }
        calls[second] += 1
        return calls[second]
    }

    mutating func note(liveAt second: Int) {
        if liveBySecond.indices.contains(second) { liveBySecond[second] = live }
    }

    func highest(_ range: Range<Int>) -> Int { calls[range.clamped(to: 0..<calls.count)].max() ?? 0 }

    func mean(_ range: Range<Int>) -> Int {
        let part = calls[range.clamped(to: 0..<calls.count)]
        return part.isEmpty ? 0 : part.reduce(0, +) / part.count
    }

    /// The calls of the busiest second that 99 of 100 seconds do not exceed.
    func percentile99(_ range: Range<Int>) -> Int {
        let part = calls[range.clamped(to: 0..<calls.count)].sorted()
        return part.isEmpty ? 0 : part[min(part.count - 1, part.count * 99 / 100)]
    }

    /// The first second from `start` on in which so many tokens were live; nil when there is none.
    func second(withLive count: Int, from start: Int) -> Int? {
        liveBySecond.indices.dropFirst(start).first { liveBySecond[$0] >= count }
    }

    func lowestLive(_ range: Range<Int>) -> Int { liveBySecond[range].filter { $0 >= 0 }.min() ?? live }
}
