import Foundation
package import GatewayCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Runs programs on this machine, each on a thread of its own while it lasts.
///
/// Programs get the variables that they commonly need, and those of the configuration. They do not get the rest of
/// the gateway's environment, which may hold secrets.
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
        return await OwnThread.run { [environment] isCancelled in
            Result { () throws(SpawnedProgram.Failure) in
                try SpawnedProgram.output(
                    of: program.command,
                    environment: environment,
                    input: bytes,
                    limit: Self.largestOutput,
                    timeout: deadline,
                    isCancelled: isCancelled
                )
            }.mapError { ProgramFailure($0.reason, $0.message, output: $0.output) }
        }
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
