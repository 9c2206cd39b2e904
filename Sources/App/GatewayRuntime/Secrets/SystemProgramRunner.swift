import Foundation
package import GatewayCore
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Runs programs on this machine, each on a thread of its own while it lasts.
///
/// They are given the variables that programs commonly need, and what the configuration states; the rest of the
/// gateway's environment, which may hold secrets, stays here.
package struct SystemProgramRunner: ProgramRunner {
    static let inherited = [
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR",
        "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS",
    ]
    static let largestOutput = 1 << 20

    private let variables: [String: String]

    package init(environment: [String: String] = ProcessInfo.processInfo.environment) {
        variables = environment.filter { Self.inherited.contains($0.key) }
    }

    package func run(
        _ program: TokenProgram,
        input: Secret?,
        deadline: Duration
    ) async -> Result<[UInt8], ProgramFailure> {
        var environment = variables
        for variable in program.environment { environment[variable.name] = variable.value.withValue { $0 } }
        let bytes = input.map { $0.withValue { Array($0.utf8) } }
        let cancellation = Cancellation()
        return await withTaskCancellationHandler {
            await withCheckedContinuation { [environment] done in
                Thread.detachNewThread {
                    done.resume(returning: Self.run(program.command, environment, bytes, deadline, cancellation))
                }
            }
        } onCancel: {
            cancellation.isCancelled.store(true, ordering: .relaxed)
        }
    }

    private final class Cancellation: Sendable {
        let isCancelled = Atomic(false)
    }

    private static func run(
        _ command: [String],
        _ environment: [String: String],
        _ input: [UInt8]?,
        _ deadline: Duration,
        _ cancellation: Cancellation
    ) -> Result<[UInt8], ProgramFailure> {
        Result { () throws(SpawnedProgram.Failure) in
            try SpawnedProgram.output(
                of: command,
                environment: environment,
                input: input,
                limit: largestOutput,
                timeout: deadline,
                isCancelled: { cancellation.isCancelled.load(ordering: .relaxed) }
            )
        }.mapError { ProgramFailure($0.reason, $0.message, output: $0.output) }
    }
}

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
