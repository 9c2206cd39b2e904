/// What pools of several loops share, as the data plane has it: how many connections there may be, and which pools wait.
struct PoolTestBudget {
    var free: Int
    var places: [Int: Int] = [:]
    var waiting: [Int] = []
    var promised: [Int] = []
    var members: Set<Int> = []

    init(free: Int) { self.free = free }

    func knowsAsWaiting(_ pool: Int) -> Bool { waiting.contains(pool) || promised.contains(pool) }

    mutating func take(_ pool: Int) -> Bool {
        members.insert(pool)
        guard free > 0 else {
            waiting.append(pool)
            return false
        }
        free -= 1
        places[pool, default: 0] += 1
        return true
    }

    mutating func withdraw(_ pool: Int) -> Bool {
        guard let index = waiting.firstIndex(of: pool) else { return false }
        waiting.remove(at: index)
        return true
    }

    /// - Returns: The pool that has the place now.
    mutating func giveBack(_ pool: Int) -> Int? {
        places[pool, default: 0] -= 1
        guard !promised.isEmpty || !waiting.isEmpty else {
            free += 1
            return nil
        }
        let next = promised.isEmpty ? waiting.removeFirst() : promised.removeFirst()
        places[next, default: 0] += 1
        return next
    }

    mutating func promise(_ pool: Int, rests: Bool) -> Bool {
        let own = places[pool, default: 0]
        let next = waiting.firstIndex { other in
            other != pool && (rests || places[other, default: 0] + 1 < own)
        }
        guard let next else { return false }
        promised.append(waiting.remove(at: next))
        return true
    }

    mutating func promiseToItself(_ pool: Int) -> Bool {
        guard withdraw(pool) else { return false }
        promised.insert(pool, at: 0)
        return true
    }
}
