package import GatewayHTTP

/// What is known about the clocks of authorities, and what people were told about them.
package struct ClockSkewRecord: Sendable {
    /// What a measurement changes for people.
    package enum Change: Hashable, Sendable {
        /// The clocks differ, or by another amount than was told.
        case differs
        case agrees
    }

    private struct Entry {
        var seconds: Int
        /// nil while people need not care.
        var told: Int?
    }

    /// More authorities than a configuration has.
    static let limit = 1024

    private var entries: [Origin: Entry] = [:]

    package init() {}

    /// - Parameter seconds: See ``ClockSkew/seconds(in:sentAt:receivedAt:)``.
    /// - Returns: nil when there is nothing new to tell.
    package mutating func take(_ seconds: Int, of authority: Origin) -> Change? {
        guard entries[authority] != nil || entries.count < Self.limit else { return nil }
        let told = entries[authority]?.told
        let change = Self.change(from: told, to: seconds)
        let nowTold: Int? =
            switch change {
            case .differs: seconds
            case .agrees: nil
            case nil: told
            }
        entries[authority] = Entry(seconds: seconds, told: nowTold)
        return change
    }

    private static func change(from told: Int?, to seconds: Int) -> Change? {
        guard let told else { return seconds.magnitude >= ClockSkew.notableSeconds ? .differs : nil }
        if seconds.magnitude < ClockSkew.settledSeconds { return .agrees }
        return (seconds - told).magnitude >= ClockSkew.notableSeconds ? .differs : nil
    }

    /// The largest of these authorities; nil when it is unknown, or when the clocks agree.
    package func seconds(of authorities: some Sequence<Origin>) -> Int? {
        let known = authorities.compactMap { entries[$0]?.seconds }.filter { $0 != 0 }
        return known.max { $0.magnitude < $1.magnitude }
    }
}
