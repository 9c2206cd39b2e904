import ArgumentParser
import GatewayApp

struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Print a configuration for another proxy that asks the gateway for credentials.",
        discussion: """
            Examples:
              authgateway export nginx > /etc/nginx/conf.d/authgateway.conf
              authgateway export envoy box reports > authgateway-envoy.yaml
              authgateway export caddy --listen 0.0.0.0:8000 > authgateway.caddyfile
              authgateway export haproxy > authgateway-haproxy.cfg
              authgateway export haproxy --script > authgateway.lua

            The proxy serves the routes that name its engine (authz: [ENGINE]), or
            those named here. For each request it asks the listener of listeners.authz
            with that engine, adds the fields of the answer, and forwards the request
            to the route's upstream.

            Comments in the output say how to start the proxy, where it reads the
            engine's token from, what it cannot do, and what happens while the gateway
            is down. No secret is printed. Export again after routes have changed.
            """
    )

    @Argument(help: "envoy, nginx, traefik, caddy or haproxy.")
    var proxy: String

    @Argument(help: ArgumentHelp("Only these routes.", valueName: "route"))
    var routes: [String] = []

    @Option(help: ArgumentHelp("The engine, where several in listeners.authz fit.", valueName: "name"))
    var engine: String?

    @Option(help: ArgumentHelp("Where clients reach the proxy.", valueName: "address"))
    var listen = "127.0.0.1:8000"

    @Flag(name: .customLong("grpc"), help: "With envoy: ask by gRPC, which brings more of a refusal to clients.")
    var usesGRPC = false

    @Flag(help: "With haproxy: print the script that its configuration loads.")
    var script = false

    @OptionGroup var config: ConfigOption

    func validate() throws {
        guard ExportedProxy(rawValue: proxy) != nil else {
            throw ValidationError("Name one of \(ExportedProxy.allCases.map(\.rawValue).joined(separator: ", ")).")
        }
        if usesGRPC, proxy != "envoy" { throw ValidationError("--grpc can only be used with envoy.") }
        if script, proxy != "haproxy" { throw ValidationError("--script can only be used with haproxy.") }
    }

    private static let consequence = "nothing was exported"

    func run() async throws(CommandFailure) {
        if script {
            Console.write(HAProxyExport.script)
            return
        }
        // Another one has been refused by ``validate()``.
        guard let proxy = ExportedProxy(rawValue: proxy) else { return }
        let file = try ConfigurationFile(path: config.path, consequence: Self.consequence)
        let output: String
        do throws(ExportProblem) {
            let export = try EngineExport(
                file.plan,
                for: proxy,
                routes: routes,
                engine: engine,
                listen: listen,
                usesGRPC: usesGRPC
            )
            output = try export.text()
        } catch {
            throw CommandFailure(
                .configuration,
                "\(LogText.clean(config.name)): error: \(error.description)\n\(Self.consequence)."
            )
        }
        Console.writeError(file.warnings)
        Console.write(output)
    }
}
