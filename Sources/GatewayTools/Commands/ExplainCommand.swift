import ArgumentParser
import GatewayApp
import GatewayHTTP
import GatewayProxy

struct ExplainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Show how a request would be routed and signed, and why.",
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

    @Flag(help: "Send it through the running gateway, and show what happened.")
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
        if !live, yes || token != nil { throw ValidationError("--yes and --token-from can only be used with --live.") }
        if live, client != nil {
            throw ValidationError("With --live the client's token says who sends the request; leave out --client.")
        }
    }

    func run() async throws(CommandFailure) {
        let path = try config.runningPath()
        let settings = try OperatorSettings(running: path)
        let text = try ExplainInputText.read(input)
        if live {
            Console.write(try await send(text, settings.client))
            return
        }
        let answer = try await answer(to: ExplanationQuestion(input: text, client: client), settings, path)
        Console.write(try self.text(of: answer))
        if answer.history?.requests.isEmpty == true { throw CommandFailure(.failed) }
    }

    private static func read(_ input: String) throws(CommandFailure) -> ExplainInput {
        do throws(UnusableInput) {
            return try ExplainInput(input)
        } catch {
            throw CommandFailure(.usage, error.message)
        }
    }

    // MARK: Nothing is sent

    private func answer(
        to question: ExplanationQuestion,
        _ settings: OperatorSettings,
        _ configuration: String
    ) async throws(CommandFailure) -> ExplanationAnswer {
        let input = try Self.read(question.input)
        let client = settings.client
        return try await client.reach { () async throws(CommandFailure) in
            try await client.ask(AdminAPI.operations.explain, with: question)
        } orOffline: { (failure) async throws(CommandFailure) in
            // Needs neither the rest of the configuration nor its secrets.
            if case .requestID(let id) = input {
                return ExplanationAnswer(await RequestArchive(audit: settings.plan.audit, recent: nil).history(of: id))
            }
            let offline = try await OfflineExplainer(configuration: configuration, after: failure)
            let result = await offline.explain(question)
            await offline.close()
            return try AdminClient.value(of: result)
        }
    }

    private func text(of answer: ExplanationAnswer) throws(CommandFailure) -> String {
        let style = TextStyle.current
        if let history = answer.history {
            return try json.text(of: history, or: history.text(width: style.width))
        }
        guard let explanation = answer.explanation else { return "" }
        return try json.text(of: explanation, or: Self.painted(explanation, style))
    }

    private static func painted(_ explanation: Explanation, _ style: TextStyle) -> String {
        let color: TextStyle.Color =
            switch explanation.outcome {
            case .forwarded, .answered, .tunnelled: .green
            case .waits: .yellow
            case .refused: .red
            }
        let text = explanation.text(width: style.width)
        return style.paint(explanation.verdict, color) + text.dropFirst(explanation.verdict.count)
    }

    // MARK: --live

    /// Sends the request through the running gateway, and says what became of it.
    private func send(_ input: String, _ client: AdminClient) async throws(CommandFailure) -> String {
        guard case .request(let request) = try Self.read(input) else {
            throw CommandFailure(.usage, "--live sends a request, but an id names one that was already sent")
        }
        let secret = try token.map { reference throws(CommandFailure) in try LiveSender.token(reference) }
        let sender = try LiveSender(request, token: secret, isConfirmed: yes)
        let question = ExplanationQuestion(input: input)
        guard let explanation = try await client.ask(AdminAPI.operations.explain, with: question).explanation else {
            throw CommandFailure(.failed, "the gateway does not explain this request")
        }
        let report = try await sender.send(explanation)
        let history = try await Self.history(of: report.requestId, client)
        guard json.isOn else { return report.text + "\n" + (history?.text(width: TextStyle.current.width) ?? "") }
        return try JSONText.pretty(LiveAnswer(live: report, history: history))
    }

    private struct LiveAnswer: Encodable {
        let live: LiveReport
        let history: RequestHistory?
    }

    /// The answer may have come before the gateway has noted its end.
    private static func history(of id: String?, _ client: AdminClient) async throws(CommandFailure) -> RequestHistory? {
        guard let id else { return nil }
        var history: RequestHistory?
        for _ in 0..<10 {
            let question = ExplanationQuestion(input: id)
            history = try await client.ask(AdminAPI.operations.explain, with: question).history
            if history?.requests.contains(where: { $0.status != nil }) == true { break }
            try? await Task.sleep(for: .milliseconds(100))
        }
        return history
    }
}
