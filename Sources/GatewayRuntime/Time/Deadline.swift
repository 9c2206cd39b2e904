/// Bounds what may never end, such as a read from a disk that does not answer.
enum Deadline {
    /// - Returns: nil when it took longer; it is cancelled, and its end is not waited for.
    static func value<Value: Sendable>(
        within limit: Duration,
        of work: @escaping @Sendable () async -> Value
    ) async -> Value? {
        let (results, continuation) = AsyncStream.makeStream(of: Value?.self, bufferingPolicy: .bufferingOldest(1))
        let task = Task { _ = continuation.yield(await work()) }
        let watchdog = Task {
            guard (try? await Task.sleep(for: limit)) != nil else { return }
            continuation.yield(nil)
        }
        defer {
            task.cancel()
            watchdog.cancel()
        }
        for await result in results { return result }
        return nil
    }
}
