import ArgumentParser

struct ExplainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Say what would become of a request, and why.",
        discussion: """
            Examples:
              authgateway explain http://127.0.0.1:8080/box/2.0/users/me
              authgateway explain POST https://api.box.com/2.0/files --client ci
              authgateway explain 'curl -d a=b http://box.localhost:8080/2.0/files'
              authgateway explain - < command.txt
              authgateway explain --live http://127.0.0.1:8080/box/2.0/users/me
              authgateway explain k3f9a01-2s

            Shows the route and why the others lost, the client, the rules, the
            credential, which fields are removed and added, and the request as the
            upstream would get it. The code that serves requests gives the answer.
            Nothing is sent, and no secret is shown.

            A URL may name the gateway's own address with a path, the host of a route, or
            an upstream: then the gateway is taken for the client's proxy. With - the input
            comes from standard input, where no other user sees it.

            With the id of a request (Gateway-Request-Id of its answer, or the X-Request-Id
            that the client sent) it says what happened and where the time went: from the
            last requests in memory and from the audit log.

            Without a running gateway the answer comes from the configuration file and
            the token store. What happened to a request comes from the audit log then.
            Exit code 1 when no request has the id.
            """
    )

    @Argument(
        help: ArgumentHelp(
            "A URL, METHOD URL, a curl command in quotation marks or an id; - reads it.",
            valueName: "request"
        )
    )
    var input: [String]

    @Option(help: ArgumentHelp("As this client of access.clients, whatever token the request has.", valueName: "name"))
    var client: String?

    @Flag(help: "Send it through the running gateway, and say what became of it.")
    var live = false

    @Flag(help: "With --live: send it although its method can change something.")
    var yes = false

    @Option(
        name: .customLong("token-from"),
        help: ArgumentHelp("With --live: where the client's token is, env:NAME or file:PATH.", valueName: "place")
    )
    var token: String?

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func validate() throws {
        if !live, yes || token != nil { throw ValidationError("--yes and --token-from are for --live.") }
        if live, client != nil { throw ValidationError("With --live the client's token says who sends, not --client.") }
    }

    func run() async throws {
        let commands = try ExplainCommands(configuration: config.runningPath(), asJSON: json.isOn)
        if live {
            let text = try ExplainInputText.read(input)
            return try await send(text, commands)
        }
        let (output, isKnown) = try await commands.explain(try ExplainInputText.read(input), as: client)
        Console.write(output)
        if !isKnown { throw CommandFailure(.failed) }
    }

    private func send(_ text: String, _ commands: ExplainCommands) async throws {
        Console.write(try await commands.send(text, token: token, isConfirmed: yes))
    }
}
