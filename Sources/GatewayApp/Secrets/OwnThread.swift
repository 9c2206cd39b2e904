package import GatewayFiles
import GatewayHTTP
import GatewayLocalAuthority
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Runs what blocks on a thread of its own while it lasts.
package enum OwnThread {
    /// Why there is no result of the work.
    package enum Failure: Error, Equatable {
        /// The system has no thread to give; its `errno`.
        case notStarted(Int32)
        /// The work is not done within its limit. The thread goes on until it asks whether it was cancelled.
        case overdue
    }

    private static let stackSize = 1 << 20

    /// Always returns, at the latest after `limit`.
    ///
    /// - Parameter work: Is given what tells whether the result is still waited for.
    package static func run<Value: Sendable>(
        within limit: Duration,
        _ work: @escaping @Sendable (_ isCancelled: () -> Bool) -> Value
    ) async -> Result<Value, Failure> {
        let (end, cancellation) = (Promise<Result<Value, Failure>>(), Cancellation())
        let watchdog = Task {
            // Cancelled when the work is done before.
            guard (try? await Task.sleep(for: limit)) != nil else { return }
            cancellation.request()
            end.keep(.failure(.overdue))
        }
        defer { watchdog.cancel() }
        return await withTaskCancellationHandler {
            let code = start { end.keep(.success(work { cancellation.isRequested })) }
            if code != 0 { end.keep(.failure(.notStarted(code))) }
            return await end.value()
        } onCancel: {
            cancellation.request()
        }
    }

    /// - Returns: 0, or why the system gives no thread. `body` is not called then.
    private static func start(_ body: @escaping @Sendable () -> Void) -> Int32 {
        var attributes = pthread_attr_t()
        unsafe pthread_attr_init(&attributes)
        defer { unsafe pthread_attr_destroy(&attributes) }
        unsafe pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        unsafe pthread_attr_setstacksize(&attributes, stackSize)
        let argument = unsafe Unmanaged.passRetained(ThreadBody(body))
        #if canImport(Darwin)
            var thread: pthread_t?
        #else
            var thread = pthread_t()
        #endif
        let code = unsafe pthread_create(
            &thread,
            &attributes,
            { argument in
                let pointer: UnsafeMutableRawPointer? = unsafe argument
                if let pointer = unsafe pointer {
                    unsafe Unmanaged<ThreadBody>.fromOpaque(pointer).takeRetainedValue().run()
                }
                return nil
            },
            argument.toOpaque()
        )
        if code != 0 { unsafe argument.release() }
        return code
    }
}

private final class ThreadBody: Sendable {
    let run: @Sendable () -> Void

    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// Tells a thread that its result is not waited for any more.
private final class Cancellation: Sendable {
    private let wasRequested = Atomic(false)

    var isRequested: Bool { wasRequested.load(ordering: .relaxed) }

    func request() { wasRequested.store(true, ordering: .relaxed) }
}

/// What the local certificate authority does on disk, within a deadline.
extension LocalAuthority {
    /// How long a disk is waited for.
    private static let coverLimit: Duration = .seconds(3)

    /// Does what ``cover(_:)`` does without holding up the caller for a disk that does not answer.
    package func coverInTime(_ plan: Plan) async -> Result<[String], StateError> {
        await inTime { () throws(StateError) in try self.cover(plan.interceptedHosts, as: plan.localAuthority) }
    }

    /// Does what ``rotate(_:as:)`` does, likewise.
    package func rotateInTime(_ plan: Plan) async -> Result<[String], StateError> {
        await inTime { () throws(StateError) in try self.rotate(plan.interceptedHosts, as: plan.localAuthority) }
    }

    private func inTime(
        _ work: @escaping @Sendable () throws(StateError) -> [String]
    ) async -> Result<[String], StateError> {
        let result = await OwnThread.run(within: Self.coverLimit) { _ in Result { () throws(StateError) in try work() }
        }
        switch result {
        case .success(let covered): return covered
        case .failure(let failure):
            return .failure(StateError("the local CA is not written in time (\(failure))"))
        }
    }
}
