/// How many work at a time: see ``WorkSchedule``.
package struct WorkLimits: Hashable, Sendable {
    /// Of one group.
    package let group: Int
    /// Of all groups.
    package let all: Int
    /// Of one group while ``all`` are at work: slow groups must not stop the others.
    package let reserved: Int

    package init(group: Int, all: Int = .max, reserved: Int = 1) {
        self.group = max(1, group)
        self.all = max(1, all)
        self.reserved = min(max(1, reserved), self.group)
    }

    /// Whether one more of a group may begin.
    ///
    /// - Parameters:
    ///   - working: How many of the group work.
    ///   - total: How many of all groups work.
    func hasRoom(beside working: Int, of total: Int) -> Bool { working < (total < all ? group : reserved) }
}
