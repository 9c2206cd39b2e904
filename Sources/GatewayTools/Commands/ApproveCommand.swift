import ArgumentParser
import GatewayApp
import GatewayHTTP
import GatewayProxy

struct ApproveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "approve",
        abstract: "List the requests that wait for approval; approve or deny one.",
        discussion: """
            Examples:
              authgateway approve                     what waits
              authgateway approve k3f9a01-2s          shows it, asks for your token, sends it
              authgateway approve --deny k3f9a01-2s
              authgateway approve --json | jq '.[].url'

            A rule with `approve: true` holds a request for at most \(ConfigUnits.text(HeldRequest.patience)). An approval
            counts once, for this client, method, URL and body. Control characters in the
            body are shown as \\u{..}; what does not fit is counted.

            To approve, you need the token or certificate of a user in
            listeners.admin.users with role operator and token_sha256 or certificate. The
            token is asked for, or read from standard input; with --admin it can come from
            --admin-token-file. Do not keep it where the programs that you want to
            control can read it. To list and to deny, the admin token is enough.

            Exit codes: 0 done, 1 failed or not held, 2 wrong usage, 3 configuration,
            4 gateway not reachable.
            """
    )

    @Argument(help: "The ID of the request, as the list has it.")
    var id: String?

    @Flag(help: "Deny the request instead.")
    var deny = false

    @OptionGroup var gateway: RunningGatewayOptions

    func validate() throws {
        if deny, id == nil { throw ValidationError("Name the request to deny: authgateway approve --deny ID") }
    }

    func run() async throws(CommandFailure) {
        var client = try gateway.gateway().client
        if client.lacksToken {
            // Asking for a token makes no sense if the gateway is not running.
            try await client.requireLife()
            client = client.typing(try Self.askToken("Your token as an operator (not shown): "))
        }
        guard let id else { return try await list(client) }
        if deny {
            let denied = try await client.ask(AdminAPI.operations.deny, of: id, with: ApprovalOrder())
            Console.write(try gateway.json.text(of: denied, or: "Denied: \(ApprovalText.line(of: denied))\n"))
            return
        }
        try await approve(id, client)
    }

    private func list(_ client: AdminClient) async throws(CommandFailure) {
        let held = try await client.ask(AdminAPI.operations.heldRequests)
        try gateway.json.write(held, none: "No request waits for approval.", or: ApprovalText.list(of: held, .current))
    }

    /// Without another proof, the request is shown before the token is typed, which approves it.
    private func approve(_ id: String, _ client: AdminClient) async throws(CommandFailure) {
        guard !client.mayProveUser else {
            let approved = try await client.ask(AdminAPI.operations.approve, of: id, with: ApprovalOrder())
            return try write(approved, after: ApprovalText.whole(of: approved))
        }
        let held = try await client.ask(AdminAPI.operations.heldRequests)
        guard let request = held.first(where: { $0.id == id }) else {
            throw CommandFailure(.failed, "no request \(LogText.clean(id)) waits for approval")
        }
        Console.writeError(ApprovalText.whole(of: request))
        let token = try Self.askToken("Your token as an operator approves it (not shown; Ctrl+C cancels): ")
        let approved = try await client.typing(token).ask(AdminAPI.operations.approve, of: id, with: ApprovalOrder())
        try write(approved)
    }

    private func write(_ approved: HeldRequestStatus, after text: String = "") throws(CommandFailure) {
        let line = "Approved: \(ApprovalText.line(of: approved))\n"
        Console.write(try gateway.json.text(of: approved, or: text + line))
    }

    private static func askToken(_ prompt: String) throws(CommandFailure) -> Secret {
        let token = try SecretInput.read(nil, asking: prompt).filter { $0 > 0x20 }
        guard !token.isEmpty, token.allSatisfy({ $0 < 0x7F }) else {
            throw CommandFailure(.failed, "no token was given; nothing was approved")
        }
        return Secret(String(decoding: token, as: UTF8.self))
    }
}

/// Requests that are held, as people read them. All of it is from elsewhere: nothing in it may control the terminal.
enum ApprovalText {
    static func list(of held: [HeldRequestStatus], _ style: TextStyle) -> String {
        var table = TextTable("ID", "CLIENT", "ROUTE", "REQUEST", "CALLS", "SHA-256", "AGE", "LEFT")
        for request in held {
            table.add(
                request.id,
                request.client ?? "-",
                request.route,
                "\(request.method) \(request.url)",
                request.calls?.joined(separator: ", ") ?? "-",
                String(request.bodySha256.prefix(16)),
                "\(request.ageSeconds) s",
                "\(request.expiresInSeconds) s"
            )
        }
        let texts = held.map { "\n\(LogText.clean($0.id))\n\(body(of: $0, lines: 6))" }.joined()
        return table.text(style) + texts + "\nauthgateway approve ID shows all of one and approves it.\n"
    }

    static func line(of request: HeldRequestStatus) -> String {
        LogText.clean("\(request.id) \(request.method) \(request.url)")
    }

    /// All that an operator has to see before it is sent. The body comes first: a long one must not push the rest off the screen.
    static func whole(of request: HeldRequestStatus) -> String {
        let facts = [
            ("request", "\(request.method) \(request.url)"), ("client", request.client ?? "no name"),
            ("route", request.route), ("calls", request.calls?.joined(separator: ", ") ?? ""),
            ("fields", request.fields?.joined(separator: ", ") ?? ""),
            ("sha-256", "\(request.bodySha256) (\(request.bodyBytes) bytes)"),
        ]
        let lines = facts.filter { !$0.1.isEmpty }.map { fact in
            "\(fact.0.padding(to: 9))\(fact.1.singleLine(limit: HeldRequestStatus.longestLine))\n"
        }
        return body(of: request, lines: .max) + lines.joined()
    }

    /// Each line begins with a mark, so that none can be taken for one of the command.
    private static func body(of request: HeldRequestStatus, lines limit: Int) -> String {
        guard request.bodyBytes > 0 else { return "  | (no body)\n" }
        let all = request.text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        let width = limit == .max ? HeldRequestStatus.longestLine : 160
        let shown = all.prefix(limit).map { "  | \($0.singleLine(limit: width))\n" }.joined()
        let isShortened = all.count > limit || all.prefix(limit).contains { $0.utf8.count > width }
        let rest = request.bodyBytes - request.shownBytes
        let missing = rest > 0 ? "  ! \(rest) more bytes of the body are not shown\n" : ""
        return shown + (isShortened ? "  ! shortened here; authgateway approve ID shows more\n" : "") + missing
    }
}
