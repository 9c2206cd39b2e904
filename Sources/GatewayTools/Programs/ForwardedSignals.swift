import Glibc
import Synchronization

/// Signals that were sent to this process and are meant for the program that it runs.
///
/// Both are in one process group, so the terminal tells both. What it sends is not passed on a second time.
final class ForwardedSignals: Sendable {
    enum Event: Hashable, Sendable {
        /// A process sent it: to be passed on.
        case sent(Int32)
        /// The terminal sent it: the program has it already.
        case typed(Int32)
        /// A program of this process has ended or stopped.
        case child
    }

    private static let forwarded = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]

    private let readEnd: Int32
    /// A program gets the default action for them. One that was ignored before stays ignored.
    let handled: [Int32]

    /// - Throws: The `errno` of what failed.
    init() throws(SystemFailure) {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { throw SystemFailure(code: errno) }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        readEnd = ends[0]
        writeEnd.store(ends[1], ordering: .sequentiallyConsistent)
        var handled: [Int32] = []
        for signal in Self.forwarded + [SIGCHLD] {
            var before = sigaction()
            _ = unsafe sigaction(signal, nil, &before)
            let isIgnored = unsafe unsafeBitCast(before.__sigaction_handler.sa_handler, to: Int.self) == Self.ignored
            guard !isIgnored || signal == SIGCHLD else { continue }
            var action = sigaction()
            unsafe action.__sigaction_handler.sa_sigaction = report
            action.sa_flags = SA_SIGINFO | SA_RESTART
            _ = unsafe sigaction(signal, &action, nil)
            handled.append(signal)
        }
        self.handled = handled
    }

    /// Signals cannot be taken; the `errno` of the system.
    struct SystemFailure: Error { let code: Int32 }

    /// SIG_IGN, which Swift cannot compare.
    private static let ignored = 1

    /// Waits for the next one, at most so long.
    func next(milliseconds: Int32) -> Event? {
        var waited = pollfd(fd: readEnd, events: Int16(POLLIN), revents: 0)
        _ = unsafe poll(&waited, 1, milliseconds)
        var bytes: [UInt8] = [0, 0]
        guard unsafe read(readEnd, &bytes, 2) == 2 else { return nil }
        let signal = Int32(bytes[0])
        guard signal != SIGCHLD else { return .child }
        return bytes[1] == 0 ? .sent(signal) : .typed(signal)
    }
}

/// Global, because nothing can be passed to a signal handler.
private let writeEnd = Atomic<Int32>(-1)

/// Only what may be done while any other code is interrupted: two bytes are written, or dropped where the pipe is full.
private let report: @convention(c) (Int32, UnsafeMutablePointer<siginfo_t>?, UnsafeMutableRawPointer?) -> Void = {
    signal,
    information,
    _ in
    let code = errno
    // Above zero, the kernel has sent it, as for a key of the terminal.
    let isKernel = unsafe (information?.pointee.si_code ?? 0) > 0
    var message = UInt16(UInt8(truncatingIfNeeded: signal)) | (isKernel ? 0x100 : 0)
    message = UInt16(littleEndian: message)
    _ = unsafe write(writeEnd.load(ordering: .relaxed), &message, 2)
    errno = code
}
