/// The statuses that are told apart where requests are counted, for example as the label of a metric.
///
/// An upstream chooses the status. If each were counted by itself, the upstream of one route could use up the room for those of all
/// routes. So a status that is not in common use counts as the first one of its class (RFC 9110 section 15).
package enum CountedStatus {
    /// Those that are registered, and those of well-known proxies.
    private static let common: [ClosedRange<Int>] = [
        100...103, 200...208, 226...226, 300...308, 400...431, 451...451, 499...499, 500...511, 520...530,
    ]

    /// - Parameter status: 0 where nothing was answered.
    package static func number(for status: Int) -> Int {
        guard status != 0, !common.contains(where: { $0.contains(status) }) else { return status }
        // What is in no class is taken for an error of the server.
        return (100..<600).contains(status) ? status / 100 * 100 : 500
    }
}
