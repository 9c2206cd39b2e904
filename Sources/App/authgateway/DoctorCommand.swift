import ArgumentParser
import GatewayRuntime

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Look at everything that the gateway needs, and say what to do.",
        discussion: """
            Examples:
              authgateway doctor
              authgateway doctor --offline
              authgateway doctor --json | jq '.findings[] | select(.level == "error")'

            Looks at the configuration, the modes of its files, the addresses to listen on, the token
            store, the audit log (its newest events), the names, connections and certificates of
            upstreams and authorities, the clock, and each credential. Says for each what is wrong and
            which command helps.

            It changes nothing. Upstreams are connected to, and are sent no request: it could change
            something there. Authorities are asked HEAD / without a credential, for their time. A
            credential is tried by fetching one token, which is forgotten again. One whose renewal
            spends a token is not tried: the running gateway is asked for its state, or else the token
            store is read. A running gateway is not disturbed.

            With --offline nothing is sent to another machine. Programs that print secrets of the
            configuration run all the same.

            Exit code 1 when there is an error.
            """
    )

    @Argument(help: "The configuration file, the same as --config.")
    var file: String?

    @Flag(help: "Send nothing to another machine.")
    var offline = false

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func validate() throws {
        if file != nil, config.file != nil {
            throw ValidationError("Name the file once: as an argument or with --config.")
        }
    }

    func run() async throws {
        let doctor = DoctorOperation(configuration: file ?? config.path(), asJSON: json.isOn, isOffline: offline)
        let (output, isHealthy) = try await doctor.run()
        Console.write(output)
        guard isHealthy else { throw CommandFailure(.failed) }
    }
}
