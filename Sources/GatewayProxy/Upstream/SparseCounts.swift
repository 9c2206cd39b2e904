import Synchronization

/// One count for each index below a limit, which all threads may change without a lock.
///
/// With 10,000 clients and 10,000 upstreams there are 100 million counts, nearly all of them zero. So blocks of 64 get memory when
/// one of them is first changed, and keep it: another thread may be reading it. Pointers, because reading an `AtomicLazyReference`
/// looks its type up and retains what it has, which costs a request 3,000 instructions.
///
/// `@unchecked Sendable`: the memory behind the pointers is atomic, is published once by compare-and-exchange, and is freed when
/// nobody has the counts any more.
@safe
struct SparseCounts: ~Copyable, @unchecked Sendable {
    private typealias Block = UnsafeMutablePointer<Atomic<Int>>
    private typealias Blocks = UnsafeMutablePointer<Atomic<Block?>>

    private static let blockSize = 64

    let limit: Int
    private let blocks = unsafe Atomic<Blocks?>(nil)

    init(limit: Int) { self.limit = limit }

    private var blockCount: Int { (limit + Self.blockSize - 1) / Self.blockSize }

    subscript(index: Int) -> Int {
        assert(index >= 0 && index < limit, "There is no such count.")
        guard index >= 0, index < limit, let blocks = unsafe blocks.load(ordering: .acquiring),
            let block = unsafe blocks[index / Self.blockSize].load(ordering: .acquiring)
        else { return 0 }
        return unsafe block[index % Self.blockSize].load(ordering: .relaxed)
    }

    func add(_ difference: Int, at index: Int) {
        assert(index >= 0 && index < limit, "There is no such count.")
        guard index >= 0, index < limit else { return }
        let blocks = unsafe Self.make(blocks, count: blockCount) { unsafe $0.initialize(to: Atomic(nil)) }
        let block = unsafe Self.make(blocks[index / Self.blockSize], count: Self.blockSize) {
            unsafe $0.initialize(to: Atomic(0))
        }
        unsafe block[index % Self.blockSize].add(difference, ordering: .relaxed)
    }

    /// What stands in `place`, which is made when nothing does.
    @inline(__always)
    private static func make<Element: ~Copyable>(
        _ place: borrowing Atomic<UnsafeMutablePointer<Element>?>,
        count: Int,
        _ initialize: (UnsafeMutablePointer<Element>) -> Void
    ) -> UnsafeMutablePointer<Element> {
        if let known = unsafe place.load(ordering: .acquiring) { return unsafe known }
        let new = UnsafeMutablePointer<Element>.allocate(capacity: count)
        for number in 0..<count { unsafe initialize(new + number) }
        let (isFirst, other) = unsafe place.compareExchange(
            expected: nil,
            desired: new,
            ordering: .acquiringAndReleasing
        )
        guard !isFirst, let other = unsafe other else { return unsafe new }
        unsafe new.deinitialize(count: count)
        unsafe new.deallocate()
        return unsafe other
    }

    var capacity: Int {
        guard let blocks = unsafe blocks.load(ordering: .acquiring) else { return 0 }
        let made = (0..<blockCount).count { unsafe blocks[$0].load(ordering: .acquiring) != nil }
        return made * Self.blockSize
    }

    deinit {
        guard let blocks = unsafe blocks.load(ordering: .acquiring) else { return }
        for number in 0..<blockCount {
            guard let block = unsafe blocks[number].load(ordering: .acquiring) else { continue }
            unsafe block.deinitialize(count: Self.blockSize)
            unsafe block.deallocate()
        }
        unsafe blocks.deinitialize(count: blockCount)
        unsafe blocks.deallocate()
    }
}
