package import GatewayHTTP
package import NIOCore
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The system's lookup of names, for all event loops: it blocks a thread for as long as the name server likes.
///
/// Each question has its own thread, so that a name server that is silent for one name does not delay others. Callers
/// with the same question share its answer. At ``maximumThreads``, further questions wait.
enum NameLookup {
    struct Question: Hashable, Sendable {
        enum Kind: CaseIterable, Sendable {
            case v4, v6

            var other: Kind { self == .v4 ? .v6 : .v4 }
            fileprivate var family: Int32 { self == .v4 ? AF_INET : AF_INET6 }
        }

        let host: String
        let port: Int
        let kind: Kind
    }

    /// Why a name has no address to dial.
    enum Failure: Error {
        case notResolved
        /// The system has no more descriptors, memory or threads for this process.
        case exhausted
        /// The name leads to addresses that may not be dialled, and to no other of their kind.
        case prohibited
        /// Too many questions wait for an answer.
        case tooManyWait
    }

    private static let maximumThreads = 128
    private static let maximumWaiting = 1024
    private static let queue = Mutex(
        LookupQueue<Question, EventLoopPromise<[SocketAddress]>>(
            maximumAtOnce: maximumThreads,
            maximumWaiting: maximumWaiting
        )
    )

    /// Fails with a ``Failure``. The answer is empty for a name without addresses of this kind.
    static func answer(to question: Question, on loop: any EventLoop) -> EventLoopFuture<[SocketAddress]> {
        let promise = loop.makePromise(of: [SocketAddress].self)
        switch queue.withLock({ $0.ask(question, for: promise) }) {
        case .wait: break
        case .refuse: promise.fail(Failure.tooManyWait)
        case .ask:
            // The system has no thread to give: those who wait are heard when another one is done, or ask again.
            if !Self.onThread({ answerAll(from: question) }) {
                finish(question, .failure(Failure.exhausted), goesOn: false)
            }
        }
        return promise.futureResult
    }

    private static func answerAll(from first: Question) {
        var question = first
        while let next = finish(question, Result { try lookUp(question) }, goesOn: true) { question = next }
    }

    /// - Returns: The next that waits; without one, or when the thread does not go on, there is one thread less.
    @discardableResult
    private static func finish(
        _ question: Question,
        _ result: Result<[SocketAddress], any Error>,
        goesOn: Bool
    ) -> Question? {
        let (promises, next) = queue.withLock { $0.finish(question, goesOn: goesOn) }
        for promise in promises { promise.completeWith(result) }
        return next
    }

    // MARK: Threads

    private final class Work {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// Not the library's threads, which end the process where the system has none to give.
    private static func onThread(_ run: @escaping @Sendable () -> Void) -> Bool {
        let work = unsafe Unmanaged.passRetained(Work(run))
        #if canImport(Darwin)
            var thread: pthread_t?
            let status = unsafe pthread_create(
                &thread,
                nil,
                { work in
                    unsafe Unmanaged<Work>.fromOpaque(work).takeRetainedValue().run()
                    return nil
                },
                work.toOpaque()
            )
            if status == 0, let thread = unsafe thread { unsafe pthread_detach(thread) }
        #else
            var thread = pthread_t()
            let status = unsafe pthread_create(
                &thread,
                nil,
                { work in
                    if let work = unsafe work { unsafe Unmanaged<Work>.fromOpaque(work).takeRetainedValue().run() }
                    return nil
                },
                work.toOpaque()
            )
            if status == 0 { pthread_detach(thread) }
        #endif
        if status != 0 { unsafe work.release() }
        return status == 0
    }

    // MARK: System call

    private static func lookUp(_ question: Question) throws(Failure) -> [SocketAddress] {
        var hints = unsafe addrinfo()
        #if canImport(Glibc)
            unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        #else
            unsafe hints.ai_socktype = SOCK_STREAM
        #endif
        unsafe hints.ai_family = question.kind.family
        var first: UnsafeMutablePointer<addrinfo>?
        switch unsafe getaddrinfo(question.host, String(question.port), &hints, &first) {
        case 0: break
        case EAI_MEMORY: throw .exhausted
        // Without a descriptor the C library says one or the other.
        case EAI_NONAME, noData, otherFamily:
            guard hasDescriptorLeft else { throw .exhausted }
            return []
        default: throw hasDescriptorLeft ? .notResolved : .exhausted
        }
        defer { unsafe freeaddrinfo(first) }
        var addresses: [SocketAddress] = []
        var hasProhibited = false
        var next = unsafe first
        while let entry = unsafe next {
            if let bytes = unsafe UnsafeRawPointer(entry.pointee.ai_addr) {
                if unsafe isProhibited(bytes, question.kind) {
                    hasProhibited = true
                } else if question.kind == .v4 {
                    let address = unsafe bytes.loadUnaligned(as: sockaddr_in.self)
                    addresses.append(SocketAddress(address, host: question.host))
                } else {
                    let address = unsafe bytes.loadUnaligned(as: sockaddr_in6.self)
                    addresses.append(SocketAddress(address, host: question.host))
                }
            }
            unsafe next = entry.pointee.ai_next
        }
        guard !hasProhibited || !addresses.isEmpty else { throw .prohibited }
        return addresses
    }

    #if canImport(Glibc)
        // EAI_NODATA and EAI_ADDRFAMILY, which the C library shows to its GNU dialect only.
        private static let noData: Int32 = -5
        private static let otherFamily: Int32 = -9
    #else
        private static let noData = EAI_NONAME
        private static let otherFamily = EAI_NONAME
    #endif

    private static var hasDescriptorLeft: Bool {
        let descriptor = dup(STDIN_FILENO)
        guard descriptor >= 0 else { return errno != EMFILE && errno != ENFILE }
        close(descriptor)
        return true
    }

    private static func isProhibited(_ address: UnsafeRawPointer, _ kind: Question.Kind) -> Bool {
        // Where the number stands in a `sockaddr_in` and a `sockaddr_in6`.
        let number = kind == .v4 ? 4..<8 : 8..<24
        return ProhibitedAddress.contains(number.map { unsafe address.load(fromByteOffset: $0, as: UInt8.self) })
    }
}

/// Looks up the name of a server, for a command that got the name from another server.
package enum ServerName {
    /// Whether all of its addresses are on the public internet; nil if it has none.
    package static func isPublic(_ server: Origin, on loop: any EventLoop) async -> Bool? {
        var addresses: [SocketAddress] = []
        for kind in NameLookup.Question.Kind.allCases {
            let question = NameLookup.Question(host: server.lookupName, port: server.port, kind: kind)
            do {
                addresses += try await NameLookup.answer(to: question, on: loop).get()
            } catch {
                if case NameLookup.Failure.prohibited = error { return false }
            }
        }
        guard !addresses.isEmpty else { return nil }
        return addresses.allSatisfy { $0.ipBytes.flatMap { IPAddress($0) }.map(PublicAddress.contains) ?? false }
    }
}
