package import GatewayAudit
package import GatewayEvents
package import GatewayFiles
package import GatewayHTTP
import GatewayProxy
package import GatewayTokens

/// Every operation of the admin listener that answers with JSON about the gateway: one declaration each.
///
/// The properties are the list: ``endpoints``, the router, the role check and the buttons of the page are made from them, and the
/// client takes one of them. ``AdminRouteTable`` adds what answers in another form: pages, probes, streams, and the tokens for
/// clients.
package struct AdminAPI: Sendable {
    package typealias Operation<Answer: Codable & Sendable> = AdminOperation<any OperationRunner, NoInput, Answer>
    package typealias InputOperation<Input: AdminInput, Answer: Codable & Sendable> =
        AdminOperation<any OperationRunner, Input, Answer>
    package typealias LoginOperation<Input: AdminInput> = AdminOperation<any LoginControl, Input, LoginProgress>

    package static let operations = AdminAPI()

    static let endpoints = declared.compactMap { ($0 as? any ListedOperation)?.endpoint }

    /// The operations that need only the name of a credential. The page has a button for each.
    static let onTokens = declared.compactMap { $0 as? Operation<OperationReport> }.filter { $0.button != nil }

    private static var declared: [Any] { Mirror(reflecting: operations).children.map(\.value) }

    /// It answers with a line of text, or with status 503, so it is not in the list: ``AdminRouteTable`` has its resource.
    package static let readiness = Operation<Readiness>(.get, "/readyz", .viewer) { gateway, _ in
        .success(await gateway.readiness())
    }

    // MARK: What is to be seen

    package let overview = Operation<GatewayOverview>(.get, "/api/overview", .viewer) { gateway, _ in
        .success(await gateway.overview())
    }

    package let routes = Operation<[RouteStatus]>(.get, "/api/routes", .viewer) { gateway, _ in
        .success(await gateway.routes())
    }

    package let traffic = Operation<[TrafficStatus]>(.get, "/api/traffic", .viewer) { gateway, _ in
        .success(await gateway.traffic())
    }

    package let trafficHour = Operation<TrafficHour>(.get, "/api/traffic/hour", .viewer) { gateway, _ in
        .success(await gateway.trafficHour())
    }

    package let expirations = Operation<[Expiration]>(.get, "/api/expirations", .viewer) { gateway, _ in
        .success(await gateway.expirations())
    }

    package let fleet = Operation<FleetReport>(.get, "/api/fleet", .viewer) { gateway, _ in
        await gateway.fleet()
    }

    package let tokens = Operation<[TokenStatus]>(.get, "/api/tokens", .viewer) { gateway, _ in
        .success(await gateway.tokens())
    }

    package let token = Operation<TokenStatus>(.get, "/api/tokens/:name", .viewer) { gateway, name in
        await gateway.token(name)
    }

    /// Not for everybody on the machine: digests of secrets are in it.
    package let plan = Operation<ServedPlan>(.get, "/api/plan", .operator) { gateway, _ in
        guard let plan = await gateway.servedPlan() else {
            return .failure(GatewayProblem(.noRoute, "This gateway was started without a configuration file."))
        }
        return .success(plan)
    }

    /// Who used a credential, how often, and with which result, from the audit log. `audit who` asks the file instead.
    package let auditWho = InputOperation<AuditWhoQuestion, AuditWho>(
        .post,
        "/api/audit/who/:name",
        .viewer,
        body: .read(upTo: 4096)
    ) { gateway, name, question in
        await gateway.who(name, question)
    }

    /// Commands that read the file of the audit log ask for it first. Not for everybody on the machine: it waits for the disk.
    package let flushAudit = Operation<AuditFlush>(
        .post,
        "/api/audit/flush",
        .operator,
        needsRunningGateway: true
    ) { gateway, _ in
        .success(await gateway.flushAudit())
    }

    // MARK: What changes a token

    /// A gateway that starts renews by itself.
    package let refresh = onToken(
        "refresh",
        .refresh,
        AdminButton(use: .renewal, summary: "Renew the token now, whatever its age."),
        needsRunningGateway: true
    )

    package let revoke = onToken(
        "revoke",
        .revoke,
        AdminButton(use: .token, summary: "Revoke the token at the authorization server, then forget it here.")
    )

    package let clear = onToken(
        "clear",
        .clear,
        AdminButton(
            use: .token,
            summary: "Forget the token here and in the store, without telling the authorization server."
        )
    )

    package let lock = onCredential(
        "lock",
        AdminButton(
            use: .lock,
            summary: "Stop using the credential: it is neither injected nor renewed, even after a restart."
        ),
        withdraws: true
    ) {
        await $0.lock($1)
    }

    package let unlock = onCredential("unlock", AdminButton(use: .unlock, summary: "Use the locked credential again."))
    {
        await $0.unlock($1)
    }

    /// The body is a token: it is read, handed on and never repeated.
    package let importToken = InputOperation<TokenToImport, OperationReport>(
        .post,
        "/api/tokens/:name/import",
        .operator,
        body: .read(upTo: ImportedToken.limitBytes)
    ) { gateway, name, input in
        await gateway.perform(.import(input.token), on: name)
    }

    // MARK: What hands out a token

    package let reveal = Operation<RevealedTokenBody>(
        .post,
        "/api/tokens/:name/reveal",
        .operator,
        needsRunningGateway: true
    ) { gateway, name in
        await gateway.reveal(name).map { RevealedTokenBody($0) }
    }

    package let downscope = InputOperation<DownscopeOptions, RevealedTokenBody>(
        .post,
        "/api/tokens/:name/downscope",
        .operator,
        needsRunningGateway: true,
        body: .read(upTo: 16 << 10)
    ) { gateway, name, options in
        await gateway.downscope(name, options).map { RevealedTokenBody($0) }
    }

    /// The body may hold the token of a client, which is the proof: it is never repeated.
    package let beginRun = InputOperation<RunOrder, RunToken>(
        .post,
        "/api/runs",
        .viewer,
        needsRunningGateway: true,
        body: .read(upTo: 16 << 10)
    ) { gateway, _, order in
        await gateway.beginRun(order)
    }

    // MARK: Requests that wait for an approval

    /// Not for everybody on the machine: what they hold is to be seen.
    package let heldRequests = Operation<[HeldRequestStatus]>(
        .get,
        "/api/approvals",
        .operator,
        needsRunningGateway: true
    ) { gateway, _ in
        .success(await gateway.heldRequests())
    }

    package let approve = InputOperation<ApprovalOrder, HeldRequestStatus>(
        .post,
        "/api/approvals/:id/approve",
        .operator,
        needsRunningGateway: true,
        body: .ignored
    ) { gateway, id, order in
        await gateway.approve(id, by: order.user)
    }

    package let deny = InputOperation<ApprovalOrder, HeldRequestStatus>(
        .post,
        "/api/approvals/:id/deny",
        .operator,
        withdraws: true,
        needsRunningGateway: true,
        body: .ignored
    ) { gateway, id, order in
        await gateway.deny(id, by: order.user)
    }

    // MARK: What concerns the gateway as a whole

    /// A reload may take rights of clients and users away.
    package let reload = Operation<ReloadReport>(
        .post,
        "/api/reload",
        .operator,
        withdraws: true,
        isConflict: { $0.outcome != .loaded },
        perform: { gateway, _ in .success(await gateway.reload()) }
    )

    package let rotateKey = Operation<KeyRotationReport>(.post, "/api/key/rotate", .operator) {
        gateway,
        _ in
        await gateway.rotateKey()
    }

    package let rotateAuthority = Operation<AuthorityRotationReport>(
        .post,
        "/api/ca/rotate",
        .operator
    ) { gateway, _ in
        await gateway.rotateAuthority()
    }

    package let noteBackup = InputOperation<BackupToNote, BackupNote>(
        .post,
        "/api/state/backup",
        .operator,
        body: .read(upTo: 4096)
    ) { gateway, _, backup in
        await gateway.noteBackup(includesKeys: backup.includesKeys)
    }

    /// How a request would be routed and signed.
    ///
    /// The question may hold a client's token, and is never repeated. The answer holds no secret, so a page can show it.
    package let explain = AdminOperation<any ExplanationControl, ExplanationQuestion, ExplanationAnswer>(
        .post,
        "/api/explain",
        .operator,
        asking: { $0.explanations },
        body: .read(upTo: ExplainInput.limit + 4096)
    ) { explanations, _, question in
        await explanations.explain(question)
    }

    // MARK: Logins of the command line

    package let beginLogin = AdminOperation<any LoginControl, LoginOrder, LoginInvitation>(
        .post,
        "/api/logins",
        .operator,
        asking: { $0.logins },
        body: .refused(over: AdminForm.limit)
    ) { logins, _, order in
        await logins.begin(order)
    }

    package let login = LoginOperation<NoInput>(
        .get,
        "/api/logins/:id",
        .operator,
        asking: { $0.logins }
    ) { logins, id, _ in
        progress(await logins.progress(id))
    }

    package let answerLogin = LoginOperation<PastedAnswer>(
        .post,
        "/api/logins/:id/answer",
        .operator,
        asking: { $0.logins },
        body: .refused(over: AdminForm.limit)
    ) { logins, id, answer in
        progress(await logins.answer(id, with: answer.text))
    }

    package let cancelLogin = LoginOperation<NoInput>(
        .delete,
        "/api/logins/:id",
        .operator,
        asking: { $0.logins }
    ) { logins, id, _ in
        await logins.cancel(id)
        return progress(await logins.progress(id))
    }
}

/// What a keeper does with its token.
private func onToken(
    _ verb: String,
    _ operation: TokenOperation,
    _ button: AdminButton,
    needsRunningGateway: Bool = false
) -> AdminAPI.Operation<OperationReport> {
    onCredential(verb, button, withdraws: operation.isWithdrawal, needsRunningGateway: needsRunningGateway) {
        await $0.perform(operation, on: $1)
    }
}

/// An operation that needs only the name of a credential.
private func onCredential(
    _ verb: String,
    _ button: AdminButton,
    withdraws: Bool = false,
    needsRunningGateway: Bool = false,
    _ perform: @escaping @Sendable (OperatorControl, _ name: String) async -> Result<OperationReport, GatewayProblem>
) -> AdminAPI.Operation<OperationReport> {
    AdminAPI.Operation(
        .post,
        "/api/tokens/:name/\(verb)",
        .operator,
        withdraws: withdraws,
        needsRunningGateway: needsRunningGateway,
        button: button,
        perform: perform
    )
}

private func progress(_ progress: LoginProgress?) -> Result<LoginProgress, GatewayProblem> {
    progress.map { .success($0) } ?? .failure(GatewayProblem(.noRoute, "There is no such login."))
}

// MARK: What operations are told

/// The body of ``AdminAPI/importToken``: the access token in one line, or JSON as an authorization server answers it.
package struct TokenToImport: AdminInput {
    let token: ImportedToken
    /// As it was given, since a token that was read cannot be written again.
    package let body: [UInt8]?

    package init(reading body: [UInt8]) throws(UnusableInput) {
        token = try ImportedToken(reading: body)
        self.body = body
    }

    package init(body: [UInt8]?) throws(GatewayProblem) {
        guard let body else { throw GatewayProblem(.contentTooLarge, "A token has at most 64 KiB.") }
        do throws(UnusableInput) {
            try self.init(reading: body)
        } catch {
            throw GatewayProblem(.requestRefused, "Invalid token: \(error.message).")
        }
    }
}

/// The body of ``AdminAPI/noteBackup``.
package struct BackupToNote: AdminJSONInput {
    package static let example = #"{"keys": false}"#

    /// Whether the backup holds the keys that open the token store.
    let includesKeys: Bool

    package var json: JSONValue { .object(["keys": .bool(includesKeys)]) }

    package init(includesKeys: Bool) { self.includesKeys = includesKeys }

    package init(_ json: JSONValue) throws(GatewayProblem) {
        guard case .object(let members) = json, members.count == 1, case .bool(let includesKeys)? = members["keys"]
        else { throw Self.malformed }
        self.includesKeys = includesKeys
    }
}

/// The body of ``AdminAPI/beginRun``: a program that `exec` runs, and the token of the client that it acts as, if any.
package struct RunOrder: AdminJSONInput {
    package static let example = #"{"process": 4711, "started": 123456, "token": "…"}"#

    let process: ProcessMark
    let token: Secret?
    /// The user who asks. Not part of the body.
    private(set) var user: UInt32?

    package var json: JSONValue {
        var members: [String: JSONValue] = [
            "process": .number(.init(Double(process.number))), "started": .number(.init(Double(process.started))),
        ]
        members["token"] = token.map { token in .string(token.withValue { $0 }) }
        return .object(members)
    }

    package init(process: ProcessMark, token: Secret?) {
        self.process = process
        self.token = token
    }

    package init(_ json: JSONValue) throws(GatewayProblem) {
        guard case .object(let members) = json,
            case .number(let number)? = members["process"],
            let process = number.whole.flatMap({ Int32(exactly: $0) }), process > 0,
            case .number(let ticks)? = members["started"], let started = ticks.whole.flatMap({ UInt64(exactly: $0) })
        else { throw Self.malformed }
        let token = members["token"]?.string
        guard members.count == (token == nil ? 2 : 3) else { throw Self.malformed }
        self.init(process: ProcessMark(number: process, started: started), token: token.map { Secret($0) })
    }

    package mutating func note(user find: () async -> UInt32?) async { user = await find() }
}

/// The token of a program on its way to `exec`.
package struct RunToken: Codable, Sendable {
    private let token: String

    package var secret: Secret { Secret(token) }

    init(_ token: Secret) { self.token = token.withValue { $0 } }
}

/// The body of ``AdminAPI/auditWho``. All members may be left out, and so may the body.
package struct AuditWhoQuestion: AdminJSONInput, Equatable {
    package static let example = #"{"by": "client", "since": "24h", "until": "2026-03-01T09:30:00Z"}"#

    let by: AuditWho.Grouping
    /// As ``TypedPeriod`` reads it; nil for all that is recorded.
    let since: String?
    let until: String?
    /// Who asks; not in the body.
    var asker: String?

    package init(by: AuditWho.Grouping = .client, since: String? = nil, until: String? = nil) {
        self.by = by
        self.since = since
        self.until = until
    }

    package var json: JSONValue {
        var members: [String: JSONValue] = ["by": .string(by.rawValue)]
        members["since"] = since.map { .string($0) }
        members["until"] = until.map { .string($0) }
        return .object(members)
    }

    package init(body: [UInt8]?) throws(GatewayProblem) {
        guard body?.isEmpty != true else {
            self.init()
            return
        }
        guard let json = body.flatMap({ JSONValue($0, uniqueNames: true) }) else { throw Self.malformed }
        try self.init(json)
    }

    package init(_ json: JSONValue) throws(GatewayProblem) {
        guard case .object(let members) = json, members.values.allSatisfy({ $0.string != nil }),
            members.keys.allSatisfy({ ["by", "since", "until"].contains($0) }),
            let by = AuditWho.Grouping(rawValue: members["by"]?.string ?? "client")
        else { throw Self.malformed }
        self.init(by: by, since: members["since"]?.string, until: members["until"]?.string)
    }

    package mutating func note(asker: String) { self.asker = asker }
}

/// The body of ``AdminAPI/answerLogin``: what a person pasted.
package struct PastedAnswer: AdminJSONInput {
    package static let example = #"{"answer": "http://127.0.0.1:8085/callback?code=…&state=…"}"#

    let text: String

    package var json: JSONValue { .object(["answer": .string(text)]) }

    package init(_ text: String) { self.text = text }

    package init(_ json: JSONValue) throws(GatewayProblem) {
        guard let text = json["answer"]?.string else { throw Self.malformed }
        self.text = text
    }
}

extension LoginOrder: AdminJSONInput {
    package static var example: String { #"{"credential": "box", "way": "browser", "timeout_seconds": 300}"# }

    package var json: JSONValue {
        var members: [String: JSONValue] = [
            "credential": .string(credential), "way": .string(way.rawValue),
            "timeout_seconds": .number(.init(Double(timeout.wholeMilliseconds) / 1000)),
        ]
        if !scopes.isEmpty { members["scopes"] = .array(scopes.map { .string($0) }) }
        return .object(members)
    }

    /// What is left out has its default.
    package init(_ json: JSONValue) throws(GatewayProblem) {
        guard case .object = json else { throw Self.malformed }
        self.init(credential: json["credential"]?.string ?? "")
        if let text = json["way"]?.string {
            guard let way = Way(rawValue: text) else {
                let ways = Way.allCases.map(\.rawValue).joined(separator: ", ")
                throw GatewayProblem(.requestRefused, "Unknown login method; use one of \(ways).")
            }
            self.way = way
        }
        if case .number(let seconds)? = json["timeout_seconds"], seconds.value > 0, seconds.value < 1e6 {
            timeout = .milliseconds(Int64(seconds.value * 1000))
        }
        if let list = json["scopes"] {
            guard case .array(let values) = list else { throw Self.malformed }
            scopes = values.compactMap(\.string)
            guard scopes.count == values.count else { throw Self.malformed }
        }
    }
}

extension DownscopeOptions: AdminJSONInput {
    package static var example: String {
        #"{"scopes": ["item_preview"], "resource": "https://api.box.com/2.0/files/1"}"#
    }

    package var json: JSONValue {
        var members: [String: JSONValue] = ["scopes": .array(scopes.map { .string($0) })]
        members["resource"] = resource.map { .string($0) }
        members["shared_link"] = sharedLink.map { link in .string(link.withValue { $0 }) }
        return .object(members)
    }

    /// `shared_link` may stand instead of `resource`. No other members are allowed.
    package init(_ json: JSONValue) throws(GatewayProblem) {
        guard case .object(let members) = json, case .array(let values)? = members["scopes"] else {
            throw Self.malformed
        }
        self.init(
            scopes: values.compactMap(\.string),
            resource: members["resource"]?.string,
            sharedLink: members["shared_link"]?.string.map { Secret($0) }
        )
        let read = 1 + (resource == nil ? 0 : 1) + (sharedLink == nil ? 0 : 1)
        guard scopes.count == values.count, read == members.count else { throw Self.malformed }
    }
}

extension ExplanationQuestion: AdminJSONInput {
    package static var example: String {
        #"{"input": "GET http://127.0.0.1:8080/box/2.0/users/me", "client": "ci"}"#
    }

    package var json: JSONValue {
        var members: [String: JSONValue] = ["input": .string(input)]
        members["client"] = client.map { .string($0) }
        return .object(members)
    }

    package init(_ json: JSONValue) throws(GatewayProblem) {
        guard let input = json["input"]?.string else { throw Self.malformed }
        self.init(input: input, client: json["client"]?.string)
    }

    package mutating func note(asker: String) { self.asker = asker }
}

/// An access token on its way to the operator who asked for it, as the admin listener and `--json` write it.
package struct RevealedTokenBody: Codable, Sendable {
    package let credential: String
    package let generation: Int
    package let accessToken: String
    package let expiresAt: String?

    init(_ token: RevealedToken) {
        credential = token.credential
        generation = token.generation
        accessToken = token.access.withValue { $0 }
        expiresAt = token.expiresAt?.rfc3339
    }
}
