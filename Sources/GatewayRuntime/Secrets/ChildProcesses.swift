import Glibc
import Synchronization

/// The children of this process: programs that it started, and as process 1 orphans that the system gave it.
enum ChildProcesses {
    /// In a container without an init process, what a program leaves behind becomes a child of the gateway when that
    /// program ends. Nobody else can reap it.
    static var adoptsOrphans: Bool { getpid() == 1 }

    private static let started = Mutex<Set<pid_t>>([])

    /// Starts a program, one at a time: none inherits the pipes of another before they are marked as private, and none is
    /// taken for an orphan before it is known.
    static func start<Rest: Sendable, Failure: Error>(
        _ spawn: () throws(Failure) -> (process: pid_t, rest: Rest)
    ) throws(Failure) -> (process: pid_t, rest: Rest) {
        try started.withLock { started throws(Failure) in
            let result = try spawn()
            started.insert(result.process)
            return result
        }
    }

    /// Reaps a program that was started here, if it has ended. Its number may be given to another process from then on.
    ///
    /// - Returns: What `waitpid` returned: 0 while it runs.
    static func reap(_ process: pid_t, status: inout Int32) -> pid_t {
        started.withLock { started in
            let result = unsafe waitpid(process, &status, WNOHANG)
            if result == process { started.remove(process) }
            return result
        }
    }

    /// Reaps the children that have ended and that nobody here waits for.
    static func reapOrphans() {
        started.withLock { started in
            for _ in 0..<mostAtOnce {
                var information = unsafe siginfo_t()
                let options = Int32(bitPattern: UInt32(WEXITED) | UInt32(WNOHANG) | UInt32(WNOWAIT))
                guard unsafe waitid(P_ALL, 0, &information, options) == 0, unsafe information.si_signo != 0 else {
                    return
                }
                let process = unsafe information._sifields._sigchld.si_pid
                // The system names this one again until its own reader has reaped it, which takes a moment.
                guard !started.contains(process) else { return }
                _ = waitpid(process, nil, WNOHANG)
            }
        }
    }

    /// Programs wait for this lock when they start.
    private static let mostAtOnce = 1024
}
