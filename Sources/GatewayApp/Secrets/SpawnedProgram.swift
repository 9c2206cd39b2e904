package import Foundation
import GatewayFiles
package import GatewayHTTP
import GatewayTokens
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Runs a program for its standard output: no shell, a deadline, a bound on the output.
///
/// The program is the leader of a process group of its own, which is killed as a whole when the program ends, and at the
/// deadline.
package enum SpawnedProgram {
    /// Why there is no output. Callers put it into the words and classes of what the program is for.
    package enum Failure: Error, Equatable {
        case notStarted(Int32)
        case timedOut(Duration)
        case tooMuchOutput
        case failed(status: Int32, output: [UInt8])
        case killed(signal: Int32)
        case cancelled

        /// Translates why the thread that waits for the program gave no result.
        package init(_ failure: OwnThread.Failure, timeout: Duration) {
            switch failure {
            case .notStarted(let code): self = .notStarted(code)
            case .overdue: self = .timedOut(timeout)
            }
        }

        /// Follows the name of the program.
        package var message: String {
            switch self {
            case .notStarted(let code): "cannot be started: \(SystemError.text(code))"
            case .timedOut(let limit): "did not exit within \(ConfigUnits.text(limit))"
            case .tooMuchOutput: "printed too much"
            case .failed(let status, _): "exited with status \(status); run it by hand to see why"
            case .killed(let signal): "was killed by signal \(signal)"
            case .cancelled: "was given up"
            }
        }
    }

    /// How long ``output(of:environment:input:limit:timeout:isCancelled:)`` takes at most, unless the system does not end a
    /// program that it was told to kill.
    package static func longestCall(timeout: Duration) -> Duration { timeout + .seconds(2) }

    /// The most that a program is given to read: what a pipe holds before anybody reads from it.
    static let largestInput = 512 << 10

    /// - Parameters:
    ///   - input: What the program reads; nil is an empty file.
    ///   - isCancelled: Asked ten times a second.
    package static func output(
        of arguments: [String],
        environment: [String: String],
        input: [UInt8]? = nil,
        limit: Int,
        timeout: Duration,
        isCancelled: () -> Bool = { false }
    ) throws(Failure) -> [UInt8] {
        let deadline = ContinuousClock.now + timeout
        let (process, output) = try ChildProcesses.start { () throws(Failure) in
            try start(arguments, environment, input)
        }
        defer { close(output) }
        let result = Result { () throws(Failure) in
            let bytes = try read(output, of: process, limit: limit, until: deadline, timeout, isCancelled)
            try wait(for: process, until: deadline, timeout)
            return bytes
        }
        // Before the program is reaped: until then its number names this group and no other.
        endGroup(of: process)
        let end = try end(of: process)
        let bytes = try result.get()
        guard end.signal == 0 else { throw .killed(signal: end.signal) }
        guard end.status == 0 else { throw .failed(status: end.status, output: bytes) }
        return bytes
    }

    /// A pipe that holds `input` already: writing while the program runs could wait for it, or end in SIGPIPE.
    ///
    /// - Returns: The end to read from.
    private static func filledPipe(_ input: [UInt8]) throws(Failure) -> Int32 {
        guard input.count <= largestInput else { throw .notStarted(E2BIG) }
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { throw .notStarted(errno) }
        defer { close(ends[1]) }
        _ = fcntl(ends[0], F_SETFD, FD_CLOEXEC)
        _ = fcntl(ends[1], F_SETFD, FD_CLOEXEC)
        #if os(Linux)
            // F_SETPIPE_SZ, which only GNU's headers name.
            _ = fcntl(ends[1], 1031, Int32(largestInput))
        #endif
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        var written = 0
        while written < input.count {
            let count = unsafe input.withUnsafeBytes { bytes in
                unsafe write(ends[1], bytes.baseAddress?.advanced(by: written), input.count - written)
            }
            guard count > 0 else {
                if count < 0, errno == EINTR { continue }
                close(ends[0])
                throw .notStarted(E2BIG)
            }
            written += count
        }
        return ends[0]
    }

    private typealias AddCloseFrom =
        @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, Int32) -> Int32

    /// `posix_spawn_file_actions_addclosefrom_np` (glibc 2.34), which the headers that Swift sees do not show.
    private static let addCloseFrom: AddCloseFrom? = unsafe dlsym(nil, "posix_spawn_file_actions_addclosefrom_np").map {
        unsafe unsafeBitCast($0, to: AddCloseFrom.self)
    }

    /// Libraries open some without marking them as private, event loops and accepted connections among them, and every
    /// program would be given those.
    private static func keepDescriptorsPrivate(_ actions: inout posix_spawn_file_actions_t) {
        // In the new process: what is opened until then is closed, too.
        if let addCloseFrom = unsafe addCloseFrom, unsafe addCloseFrom(&actions, 3) == 0 { return }
        for name in (try? FileManager.default.contentsOfDirectory(atPath: "/dev/fd")) ?? [] {
            if let number = Int32(name), number > 2 { _ = fcntl(number, F_SETFD, FD_CLOEXEC) }
        }
    }

    private static func start(
        _ arguments: [String],
        _ environment: [String: String],
        _ input: [UInt8]?
    ) throws(Failure) -> (process: pid_t, rest: Int32) {
        let source = try input.map(filledPipe)
        defer { if let source { close(source) } }
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { throw .notStarted(errno) }
        _ = fcntl(ends[0], F_SETFD, FD_CLOEXEC)
        _ = fcntl(ends[1], F_SETFD, FD_CLOEXEC)
        _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
        defer { close(ends[1]) }

        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        if let source {
            unsafe posix_spawn_file_actions_adddup2(&actions, source, 0)
        } else {
            unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        unsafe posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        // What a program complains about may hold the secret, so it does not reach our log.
        unsafe posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        unsafe keepDescriptorsPrivate(&actions)

        var attributes = posix_spawnattr_t()
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe posix_spawnattr_setsigmask(&attributes, &signals)
        unsafe posix_spawnattr_setpgroup(&attributes, 0)
        // The gateway ignores SIGPIPE and reads the other signals from a descriptor. A program that inherited this
        // would run on after its reader has left, and would ignore SIGTERM.
        for signal in [SIGPIPE, SIGTERM, SIGINT, SIGHUP] { unsafe sigaddset(&signals, signal) }
        unsafe posix_spawnattr_setsigdefault(&attributes, &signals)
        let flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
        unsafe posix_spawnattr_setflags(&attributes, Int16(flags))

        var process: pid_t = 0
        let code = withCStrings(arguments) { argv in
            withCStrings(environment.map { "\($0.key)=\($0.value)" }) { envp in
                unsafe argv[0].map { unsafe posix_spawnp(&process, $0, &actions, &attributes, argv, envp) } ?? ENOENT
            }
        }
        guard code == 0 else {
            close(ends[0])
            throw .notStarted(code)
        }
        return (process, ends[0])
    }

    /// - Returns: When the output has ended, or when the program has: children that it left are ended, and what was printed
    ///   until then counts.
    private static func read(
        _ descriptor: Int32,
        of process: pid_t,
        limit: Int,
        until deadline: ContinuousClock.Instant,
        _ timeout: Duration,
        _ isCancelled: () -> Bool
    ) throws(Failure) -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let left = (deadline - .now).wholeMilliseconds
            guard left > 0 else { throw .timedOut(timeout) }
            guard !isCancelled() else { throw .cancelled }
            // Asked before the pipe is: what the program printed is in the pipe when it has ended.
            let hasEnded = hasEnded(process)
            if hasEnded { endGroup(of: process) }
            var waited = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard unsafe poll(&waited, 1, hasEnded ? 0 : Int32(clamping: min(left, 100))) != 0 else {
                if hasEnded { return bytes }
                continue
            }
            let capacity = chunk.count
            let count = unsafe chunk.withUnsafeMutableBytes {
                unsafe Foundation.read(descriptor, $0.baseAddress, capacity)
            }
            if count < 0, errno == EINTR || errno == EAGAIN { continue }
            guard count > 0 else { return bytes }
            bytes.append(contentsOf: chunk[..<count])
            guard bytes.count <= limit else { throw .tooMuchOutput }
        }
    }

    /// The output has ended, so the program is about to end: looked at in short steps.
    private static func wait(
        for process: pid_t,
        until deadline: ContinuousClock.Instant,
        _ timeout: Duration
    ) throws(Failure) {
        while !hasEnded(process) {
            guard .now < deadline else { throw .timedOut(timeout) }
            _ = poll(nil, 0, 5)
        }
    }

    /// Does not reap it. Also true when the system knows no such child any more.
    private static func hasEnded(_ process: pid_t) -> Bool {
        var information = unsafe siginfo_t()
        let options = Int32(bitPattern: UInt32(WEXITED) | UInt32(WNOHANG) | UInt32(WNOWAIT))
        guard unsafe waitid(P_PID, id_t(process), &information, options) == 0 else { return errno != EINTR }
        return unsafe information.si_signo != 0
    }

    private static func endGroup(of process: pid_t) { kill(-process, SIGKILL) }

    /// Reaps the program, which has ended or is about to.
    private static func end(of process: pid_t) throws(Failure) -> (signal: Int32, status: Int32) {
        var status: Int32 = 0
        var information = unsafe siginfo_t()
        let options = Int32(bitPattern: UInt32(WEXITED) | UInt32(WNOWAIT))
        while unsafe waitid(P_PID, id_t(process), &information, options) < 0 {
            guard errno == EINTR else { throw .notStarted(errno) }
        }
        guard ChildProcesses.reap(process, status: &status) == process else { throw .notStarted(ECHILD) }
        return (status & 0x7F, (status >> 8) & 0xFF)
    }

    /// The strings as C expects them, for the time of the call.
    @safe package static func withCStrings<Result>(
        _ strings: [String],
        _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Result
    ) -> Result {
        let pointers = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: strings.count + 1)
        for (index, string) in strings.enumerated() {
            unsafe pointers.advanced(by: index).initialize(to: strdup(string))
        }
        unsafe pointers.advanced(by: strings.count).initialize(to: nil)
        defer {
            for index in strings.indices { unsafe free(pointers[index]) }
            unsafe pointers.deallocate()
        }
        return unsafe body(pointers)
    }
}

/// The children of this process: programs that it started, and as process 1 orphans that the system gave it.
package enum ChildProcesses {
    /// In a container without an init process, what a program leaves behind becomes a child of the gateway when that
    /// program ends, and only the gateway can reap it.
    static var adoptsOrphans: Bool { getpid() == 1 }

    private static let started = Mutex<Set<pid_t>>([])

    /// Starts a program, one at a time: none inherits the pipes of another before they are marked as private, and none is
    /// taken for an orphan before it is known.
    package static func start<Rest: Sendable, Failure: Error>(
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
    package static func reap(_ process: pid_t, status: inout Int32) -> pid_t {
        started.withLock { started in
            let result = unsafe waitpid(process, &status, WNOHANG)
            if result == process { started.remove(process) }
            return result
        }
    }

    /// Reaps the children that have ended and that this process did not start.
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

/// Runs programs on this machine, each on a thread of its own while it lasts.
///
/// Programs get the variables that they commonly need, and those of the configuration. They do not get the rest of
/// the gateway's environment, which may hold secrets.
package struct SystemProgramRunner: ProgramRunner {
    static let largestOutput = 1 << 20

    private let variables: [String: String]

    package init(environment: [String: String] = ProcessInfo.processInfo.environment) {
        variables = ProgramEnvironment.inherited(from: environment)
    }

    /// What a program is given: a few variables of the gateway's, and those that the configuration names for it.
    static func environment(_ variables: [String: String], adding named: [(String, Secret)]) -> [String: String] {
        var environment = ProgramEnvironment.inherited(from: variables)
        for (name, value) in named { environment[name] = value.withValue { $0 } }
        return environment
    }

    package func run(
        _ program: TokenProgram,
        input: Secret?,
        deadline: Duration
    ) async -> Result<[UInt8], ProgramFailure> {
        let environment = Self.environment(variables, adding: program.environment.map { ($0.name, $0.value) })
        let bytes = input.map { $0.withValue { Array($0.utf8) } }
        let outcome = await OwnThread.run(within: SpawnedProgram.longestCall(timeout: deadline)) { isCancelled in
            Result { () throws(SpawnedProgram.Failure) in
                try SpawnedProgram.output(
                    of: program.command,
                    environment: environment,
                    input: bytes,
                    limit: Self.largestOutput,
                    timeout: deadline,
                    isCancelled: isCancelled
                )
            }
        }
        let result = outcome.mapError { SpawnedProgram.Failure($0, timeout: deadline) }.flatMap(\.self)
        return result.mapError { ProgramFailure($0.reason, $0.message, output: $0.output) }
    }
}

/// What a failure tells: what the program has printed, and why it failed.
extension SpawnedProgram.Failure {
    fileprivate var output: Secret {
        guard case .failed(_, let output) = self else { return Secret("") }
        return Secret(String(decoding: output, as: UTF8.self))
    }

    fileprivate var reason: ProgramFailure.Reason {
        switch self {
        case .notStarted(ENOENT), .notStarted(EACCES), .notStarted(ENOEXEC), .notStarted(ENOTDIR): .notFound
        case .notStarted: .notStarted
        case .timedOut, .cancelled: .timedOut
        case .tooMuchOutput: .outputTooLarge
        case .failed, .killed: .failed
        }
    }
}
