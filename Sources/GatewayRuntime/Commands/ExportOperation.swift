import GatewayCore

/// What `export` does: writes a configuration for another proxy, and starts and changes nothing.
package struct ExportOperation: Sendable {
    package struct Result: Sendable {
        /// For standard output.
        package let output: String
        /// For standard error.
        package let warnings: String
    }

    private static let consequence = "nothing was exported"

    private let path: String

    /// - Parameter configuration: The path of the file, as diagnostics shall print it.
    package init(configuration: String) { path = configuration }

    /// The names of the proxies that it knows.
    package static var proxies: [String] { ExportedProxy.allCases.map(\.rawValue) }

    /// - Parameters:
    ///   - name: Of the proxy; see ``proxies``.
    ///   - routes: Their names; empty takes those that name the engine.
    ///   - engine: nil where one listener of `listeners.authz` fits.
    ///   - listen: Where clients shall reach the proxy.
    ///   - usesGRPC: For Envoy.
    package func run(
        _ name: String,
        routes: [String],
        engine: String?,
        listen: String,
        usesGRPC: Bool
    ) throws(CommandFailure) -> Result {
        guard let proxy = ExportedProxy(rawValue: name) else {
            let known = Self.proxies.joined(separator: ", ")
            throw CommandFailure(.usage, "no proxy is named \(LogText.clean(name)); there are \(known).")
        }
        let file = try ConfigurationFile(path: path, consequence: Self.consequence)
        do throws(ExportProblem) {
            let export = try EngineExport(
                file.plan,
                for: proxy,
                routes: routes,
                engine: engine,
                listen: listen,
                usesGRPC: usesGRPC
            )
            return Result(output: try export.text(), warnings: file.warnings)
        } catch {
            throw CommandFailure(
                .configuration,
                "\(LogText.clean(path)): error: \(error.description)\n\(Self.consequence)."
            )
        }
    }

    /// The script that the configuration of HAProxy loads.
    package static var script: String { HAProxyExport.script }
}
