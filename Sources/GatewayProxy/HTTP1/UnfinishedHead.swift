import GatewayCore

/// What a connection's unfinished head holds of `limits.head_memory`.
struct UnfinishedHead {
    private var place: UnfinishedHeads<HTTP1ClientConnection>.Place?
    private var bytes = 0

    /// - Parameter bytes: What the connection holds for the head now.
    mutating func count(_ bytes: Int, of connection: HTTP1ClientConnection, in worker: Worker) {
        if let place {
            worker.growHead(place, by: bytes - self.bytes)
        } else {
            place = worker.beginHead(connection, bytes: bytes)
        }
        self.bytes = bytes
    }

    mutating func release(in worker: Worker) {
        guard let place = place.take() else { return }
        worker.endHead(place)
    }

    /// The worker has ended it.
    mutating func forget() { place = nil }
}
