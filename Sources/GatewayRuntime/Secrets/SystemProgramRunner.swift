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
