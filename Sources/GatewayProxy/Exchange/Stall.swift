/// What a transfer waits for in vain.
package enum Stall: Hashable, Sendable {
    /// The client sends no more of its request.
    case requestStopped
    /// The upstream takes no more of the request.
    case upstreamStoppedReading
    /// The upstream does not begin its response.
    case upstreamSilent
    /// The upstream sends no more of its response.
    case responseStopped
    /// The client takes no more of the response.
    case clientStoppedReading
    /// Neither end of a tunnel sends or takes anything.
    case tunnelSilent
}

/// How far the two ends of a transfer were at one moment.
struct TransferProgress: Hashable, Sendable {
    /// Bytes on their way to the client that it has not acknowledged.
    var untakenByClient: Int
    /// Bytes on their way to the upstream that it has not acknowledged.
    var untakenByUpstream: Int
    /// Bytes of the response that were sent to the client; nil before its head.
    var responseSent: Int?

    /// The progress before anything was looked at: whatever waits counts as progress.
    static let unknown = TransferProgress(
        untakenByClient: .max,
        untakenByUpstream: .max,
        responseSent: nil
    )

    /// The client has taken some of what it was sent, and there is more for it.
    func clientTakes(since last: TransferProgress) -> Bool {
        untakenByClient > 0 && untakenByClient < last.untakenByClient
    }

    func upstreamTakes(since last: TransferProgress) -> Bool {
        untakenByUpstream > 0 && untakenByUpstream < last.untakenByUpstream
    }

    /// Either end of a tunnel has taken something. One that has taken all of it has moved, too.
    func tunnelMoves(since last: TransferProgress) -> Bool {
        guard last != .unknown else { return untakenByClient > 0 || untakenByUpstream > 0 }
        return untakenByClient < last.untakenByClient || untakenByUpstream < last.untakenByUpstream
    }

    func responseGrows(since last: TransferProgress) -> Bool { (responseSent ?? -1) > (last.responseSent ?? -1) }
}

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

/// Finds the party that holds up a transfer whose deadline has passed.
struct StallPolicy: Hashable, Sendable {
    var requestIsComplete: Bool
    /// The client rightly waits for a 100 before it sends its content.
    var awaitsContinue: Bool
    var clientIsWritable: Bool
    var upstreamIsWritable: Bool

    /// - Parameter last: At the deadline before this one, if nothing else has moved the deadline since.
    /// - Returns: nil while something moves, however slowly.
    func stall(from last: TransferProgress, to now: TransferProgress) -> Stall? {
        requestIsComplete ? stallOfResponse(last, now) : stallOfRequest(last, now)
    }

    private func stallOfRequest(_ last: TransferProgress, _ now: TransferProgress) -> Stall? {
        // A response that comes while content is missing is a response all the same (RFC 9110 section 10.1.1).
        if now.responseSent != nil {
            if now.responseGrows(since: last) || !clientIsWritable && now.clientTakes(since: last) { return nil }
        }
        // Nothing is read from the client while the upstream takes nothing.
        guard upstreamIsWritable else { return now.upstreamTakes(since: last) ? nil : .upstreamStoppedReading }
        return awaitsContinue ? .upstreamSilent : .requestStopped
    }

    private func stallOfResponse(_ last: TransferProgress, _ now: TransferProgress) -> Stall? {
        guard clientIsWritable else { return now.clientTakes(since: last) ? nil : .clientStoppedReading }
        guard now.responseSent == nil else { return .responseStopped }
        return now.upstreamTakes(since: last) ? nil : .upstreamSilent
    }
}
