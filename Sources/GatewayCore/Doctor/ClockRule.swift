/// What the clocks of the authorities say of this machine's.
package enum ClockRule {
    /// A `Date` field has whole seconds, and the answer took its time.
    package static let tolerance: Duration = .seconds(5)
    /// From here on, authorities refuse what is signed here, and tokens seem to end early or late.
    package static let limit: Duration = .seconds(60)

    package struct Reading: Hashable, Sendable {
        package let authority: Origin
        /// How far this machine's clock is ahead of the authority's; negative when it is behind.
        package let ahead: Duration

        package init(authority: Origin, ahead: Duration) {
            self.authority = authority
            self.ahead = ahead
        }

        /// - Parameters:
        ///   - date: The authority's, which it cut to whole seconds: half a second later is the best guess.
        ///   - sent: When the request left.
        ///   - received: When the answer was there.
        package init(authority: Origin, date: UnixTime, sent: UnixTime, received: UnixTime) {
            let middle = UnixTime(milliseconds: (sent.milliseconds + received.milliseconds) / 2)
            self.init(authority: authority, ahead: middle - (date + .milliseconds(500)))
        }

        fileprivate var size: Duration { ahead < .zero ? .zero - ahead : ahead }
    }

    package static func findings(of readings: [Reading]) -> [DoctorFinding] {
        guard !readings.isEmpty else {
            return [DoctorFinding(.clock, .skipped, "this machine", "no authority sent its time to compare with")]
        }
        let isConfirmed = readings.contains { $0.size <= tolerance }
        return readings.map { finding(of: $0, isConfirmed: isConfirmed) }
    }

    /// - Parameter isConfirmed: Another authority has the time of this machine.
    private static func finding(of reading: Reading, isConfirmed: Bool) -> DoctorFinding {
        let name = "\(reading.authority)"
        guard reading.size > tolerance else {
            return DoctorFinding(.clock, .ok, name, "its clock and this machine's agree within 5 s")
        }
        let seconds = "\(reading.size.wholeMilliseconds / 1000) s"
        let direction = reading.ahead > .zero ? "ahead of" : "behind"
        let text = "this machine's clock is \(seconds) \(direction) the authority's"
        guard !isConfirmed else {
            let remedy = "Another authority agrees with this machine. Tell the operator of this one."
            return DoctorFinding(.clock, .warning, name, text, remedy: remedy)
        }
        return DoctorFinding(
            .clock,
            reading.size >= limit ? .error : .warning,
            name,
            text,
            remedy: "Synchronize this machine's clock over the network.",
            command: "timedatectl set-ntp true"
        )
    }
}
