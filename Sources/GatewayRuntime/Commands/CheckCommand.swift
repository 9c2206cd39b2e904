import ArgumentParser

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Find every mistake in the configuration.",
        discussion: """
            Examples:
              authgateway check
              authgateway check new.yaml
              authgateway check --acquire
              authgateway check --no-secrets --json | jq -r '.diagnostics[].message'
              authgateway check new.yaml && cp new.yaml gateway.yaml

            Reads the file, what it includes and the secrets that it names; starts and
            creates nothing. Exit code 3 when there is a mistake, or when every user may
            write to one of these files.

            With --no-secrets it reads no secret and runs no program: for a machine that
            has none of them, such as a CI server. It then accepts a variable ${NAME}
            that is not set. It does not check the values of these.

            With --acquire one token of each credential is fetched as well, to see whether
            its authority gives one. It is not kept, not used and not in the audit log.
            Credentials that need a login, or whose renewal spends a token (duke_session,
            box_oauth), are not tried. Exit code 1 when one fails.
            """
    )

    @Flag(name: .customLong("no-secrets"), help: "Read no secret: check the rest of the configuration.")
    var skipsSecrets = false

    @Flag(name: .customLong("acquire"), help: "Fetch a token of each credential, and forget it.")
    var acquires = false

    @OptionGroup var config: ConfigArgument
    @OptionGroup var strictModes: StrictModesFlag
    @OptionGroup var json: JSONFlag

    func validate() throws {
        if acquires, skipsSecrets { throw ValidationError("--acquire needs the secrets; leave out --no-secrets.") }
        if acquires, json.isOn { throw ValidationError("--acquire has no JSON; leave out --json.") }
    }

    func run() async throws {
        let path = config.path
        let check = CheckOperation(
            configuration: path,
            asJSON: json.isOn,
            readsSecrets: !skipsSecrets,
            strictModes: strictModes.isOn
        )
        let result = try check.run()
        Console.writeError(result.notes)
        Console.write(result.output)
        guard result.isValid else { throw CommandFailure(.configuration) }
        guard acquires else { return }
        let (lines, failed) = try await PlanOperation.acquire(path)
        Console.write(lines)
        try CommandFailure.require(noneOf: failed)
    }
}
