import ArgumentParser

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Look at everything that the gateway needs, and say what to do.",
        discussion: """
            Examples:
              authgateway doctor
              authgateway doctor --offline
              authgateway doctor --json | jq '.findings[] | select(.level == "error")'

            Looks at the configuration, the modes of its files, the addresses to listen
            on, the token store, the newest events of the audit log, each upstream and
            authority (name, connection, certificate), the clock, and each credential.
            Says what is wrong and which command helps.

            Changes nothing, and does not disturb a running gateway. It connects to each
            upstream and sends no request. It asks each authority for its time (HEAD /
            without a credential). It fetches one token for each credential and forgets
            it. Where that would spend a refresh token, it asks the running gateway, or
            reads the token store.

            With --offline nothing is sent to another machine. Programs that print secrets of the
            configuration run all the same.

            Exit code 1 when there is an error.
            """
    )

    @Flag(help: "Send nothing to another machine.")
    var offline = false

    @OptionGroup var config: ConfigArgument
    @OptionGroup var json: JSONFlag

    func run() async throws {
        let doctor = DoctorOperation(configuration: config.path, asJSON: json.isOn, isOffline: offline)
        let (output, isHealthy) = try await doctor.run()
        Console.write(output)
        guard isHealthy else { throw CommandFailure(.failed) }
    }
}
