import GatewayApp
import GatewayFiles
import Glibc

/// A program that a person sees: it has the terminal, the standard streams and the process group of this process.
enum ForegroundProgram {
    /// Why it was not started, with the exit status that a shell would give.
    struct Failure: Error {
        let code: Int32
        /// As shells do: 127 for a program that is not there, 126 for one that cannot be run.
        var status: Int32 { code == ENOENT ? 127 : 126 }
        var reason: String { SystemError.text(code) }
    }

    private typealias Arguments = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
    private typealias Execute = @convention(c) (UnsafeMutablePointer<CChar>?, Arguments, Arguments) -> Int32

    /// execvpe(3), which the headers that Swift sees do not show.
    private static let execute: Execute? = unsafe dlsym(nil, "execvpe").map {
        unsafe unsafeBitCast($0, to: Execute.self)
    }

    /// Becomes this program: signals, terminal and exit status are its own.
    ///
    /// - Returns: Only when it could not be started.
    static func replaceProcess(_ command: [String], environment: [String: String]) -> Failure {
        // Libraries of this process ignore it; programs expect that it ends them.
        _ = signal(SIGPIPE, SIG_DFL)
        // Threads of a pool take no signals, and the program would have that from this one.
        var none = sigset_t()
        unsafe sigemptyset(&none)
        unsafe pthread_sigmask(SIG_SETMASK, &none, nil)
        let code = SpawnedProgram.withCStrings(command) { argv in
            SpawnedProgram.withCStrings(environment.map { "\($0.key)=\($0.value)" }) { envp in
                unsafe execute.map { execute in
                    _ = unsafe execute(argv[0], argv, envp)
                    return errno
                } ?? ENOSYS
            }
        }
        return Failure(code: code)
    }

    /// Runs it beside what this process does, and passes signals on to it.
    ///
    /// - Returns: Its exit status, or 128 and the number of the signal that ended it.
    static func run(
        _ command: [String],
        environment: [String: String],
        signals: ForwardedSignals
    ) async throws(Failure) -> Int32 {
        let process = try start(command, environment, signals)
        let result = await OwnThread.run(within: longestRun) { _ in wait(for: process, signals) }
        switch result {
        case .success(let status): return status
        case .failure:
            kill(process, SIGKILL)
            throw Failure(code: EAGAIN)
        }
    }

    /// In effect no limit: a program may run for as long as it likes.
    private static let longestRun: Duration = .seconds(10 * 365 * 86_400)

    private static func start(
        _ command: [String],
        _ environment: [String: String],
        _ signals: ForwardedSignals
    ) throws(Failure) -> pid_t {
        var attributes = posix_spawnattr_t()
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        unsafe sigemptyset(&none)
        unsafe posix_spawnattr_setsigmask(&attributes, &none)
        var reset = sigset_t()
        unsafe sigemptyset(&reset)
        for signal in signals.handled + [SIGPIPE] { unsafe sigaddset(&reset, signal) }
        unsafe posix_spawnattr_setsigdefault(&attributes, &reset)
        unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        return try ChildProcesses.start { () throws(Failure) in
            var process: pid_t = 0
            let code = SpawnedProgram.withCStrings(command) { argv in
                SpawnedProgram.withCStrings(environment.map { "\($0.key)=\($0.value)" }) { envp in
                    unsafe argv[0].map { unsafe posix_spawnp(&process, $0, nil, &attributes, argv, envp) } ?? ENOENT
                }
            }
            guard code == 0 else { throw Failure(code: code) }
            return (process, ())
        }.process
    }

    private static func wait(for process: pid_t, _ signals: ForwardedSignals) -> Int32 {
        while true {
            if let status = status(of: process) { return status }
            // Looks by itself now and then: several ends at once may be told as one.
            if case .sent(let signal)? = signals.next(milliseconds: 500) { kill(process, signal) }
        }
    }

    /// - Returns: nil while it runs.
    private static func status(of process: pid_t) -> Int32? {
        var status: Int32 = 0
        let result = ChildProcesses.reap(process, status: &status)
        guard result == process else { return result < 0 && errno == ECHILD ? 1 : nil }
        let signal = status & 0x7F
        return signal == 0 ? (status >> 8) & 0xFF : 128 + signal
    }
}
