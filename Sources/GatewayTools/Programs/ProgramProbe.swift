import Foundation
import GatewayApp
import GatewayFiles
import Glibc

/// Looks at a program that is about to be started.
enum ProgramProbe {
    /// More is not read of a script: its first line names what runs it.
    private static let longestFirstLine = 256
    /// How long `node --version` may take. After that the program starts without advice.
    private static let patience: Duration = .seconds(2)

    /// What to tell the person who starts the program; nil where it uses the proxy, or nobody knows.
    ///
    /// - Parameter hasToken: Whether the program has to prove to the proxy who it is.
    /// - Returns: Also whether the program calls servers directly, although it can be told another URL.
    static func proxyWarning(
        for command: [String],
        hasToken: Bool
    ) async -> (warning: String?, callsDirectly: Bool) {
        guard let program = command.first else { return (nil, false) }
        let path = program.contains("/") ? program : ProgramSearch.path(of: program)
        let interpreter = path.flatMap { ProxyAdvice.interpreter(in: start(of: $0)) }
        let advice = ProxyAdvice(command: command, interpreter: interpreter)
        var version: ProxyAdvice.NodeVersion?
        if let node = advice.node { version = await Self.version(of: node) }
        let warning = advice.warning(node: version, hasToken: hasToken)
        return (warning, callsDirectly: version != nil && warning != nil)
    }

    private static func start(of path: String) -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: longestFirstLine)
        let count = unsafe read(descriptor, &bytes, bytes.count)
        return Array(bytes.prefix(max(0, count)))
    }

    private static func version(of node: String) async -> ProxyAdvice.NodeVersion? {
        let patience = patience
        let result = await OwnThread.run(within: SpawnedProgram.longestCall(timeout: patience)) { isCancelled in
            try? SpawnedProgram.output(
                of: [node, "--version"],
                environment: ProcessInfo.processInfo.environment,
                limit: 256,
                timeout: patience,
                isCancelled: isCancelled
            )
        }
        guard case .success(let output?) = result else { return nil }
        return ProxyAdvice.NodeVersion(String(decoding: output, as: UTF8.self))
    }
}
