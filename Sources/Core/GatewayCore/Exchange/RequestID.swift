/// The name of one request in logs, problem documents and the audit log.
///
/// Most requests are never named anywhere, so it becomes text only where somebody reads it.
package enum RequestID: Hashable, Sendable, CustomStringConvertible {
    /// The client's own, when it is harmless.
    case given(String)
    /// Which run of the gateway, which of its event loops, and the how-manieth there.
    case counted(run: UInt32, lane: Int, number: UInt64)

    package var description: String {
        switch self {
        case .given(let text): text
        case .counted(let run, let lane, let number):
            "\(String(run, radix: 36))\(lane)-\(String(number, radix: 36))"
        }
    }
}
