import GatewayCore

/// Remembers how far a slow transfer was when its deadline passed, to tell at the next one whether it has moved.
struct TransferWatch {
    /// Nothing else has moved the deadline since.
    private var hasLooked = false
    private var last = TransferProgress.unknown

    /// Something has moved the deadline.
    mutating func reset() { hasLooked = false }

    /// - Parameter rule: Given the progress at the last look and the present one.
    mutating func hasMoved(_ now: TransferProgress, by rule: (TransferProgress, TransferProgress) -> Bool) -> Bool {
        let before = hasLooked ? last : .unknown
        (hasLooked, last) = (true, now)
        return rule(before, now)
    }
}
