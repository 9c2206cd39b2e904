/// Both clocks, read together.
package struct Moment: Hashable, Sendable {
    package var monotonic: MonotonicTime
    package var wall: UnixTime

    package init(monotonic: MonotonicTime, wall: UnixTime) {
        self.monotonic = monotonic
        self.wall = wall
    }

    package static func + (moment: Self, duration: Duration) -> Self {
        Self(monotonic: moment.monotonic + duration, wall: moment.wall + duration)
    }
}
