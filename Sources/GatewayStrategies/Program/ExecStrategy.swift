import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Runs a program that prints a token.
struct ExecStrategy: AuthStrategy {
    static let kind = "exec"
    static let otherNames = ["command", "program"]

    private let grant: ExecGrant

    private struct Options {
        var timeout = Duration.seconds(10)
        var format = ExecGrant.Format.json
        var defaultLifetime: Duration?
    }

    private static let keys = Keys(Options()) {
        $0("command", example: "[./bin/print-token, --audience, reports]")
            .means(
                "The program that prints the token, and its arguments. No shell is used; ./ is the folder of this file."
            )
        $0("environment", default: "{}", example: "PROFILE: production\nVAULT_TOKEN: {env: VAULT_TOKEN}")
            .means("Environment variables for the program, in addition to PATH, HOME and a few more.")
        $0("timeout", \.timeout, .duration(.milliseconds(100) ... .seconds(15)), example: "5s")
            .means("Maximum time of one run; at most 15s.")
        $0("format", \.format, .choice, example: "text")
            .means("What the program prints.")
        $0("default_ttl", \.defaultLifetime, .duration(.seconds(1) ... .seconds(366 * 86_400)), example: "30m")
            .means(
                "The lifetime of a token that does not state it. Without this key, such a token is "
                    + "used until the upstream rejects it."
            )
    }

    init?(from fields: ConfigFields) {
        fields.explain(SharedMeanings.of("apply"))
        let errors = fields.context.errorCount
        var options = Self.keys.defaults
        Self.keys.read(fields, into: &options)
        if !fields.has("command") { fields.missing("command") }
        let command = fields.command("command")
        let environment = Self.environment(in: fields)
        let placement = TokenPlacement(in: fields)
        guard let command, let placement, fields.context.errorCount == errors else { return nil }
        var program = TokenProgram(command: command, environment: environment, timeout: options.timeout)
        if options.format == .kubernetes, !environment.contains(where: { $0.name == ExecGrant.kubernetesRequest.name })
        {
            program.environment.append(ExecGrant.kubernetesRequest)
        }
        grant = ExecGrant(
            program: program,
            format: options.format,
            defaultLifetime: options.defaultLifetime,
            placement: placement
        )
    }

    var behavior: AuthBehavior { .token(grant) }

    private static func environment(in fields: ConfigFields) -> [TokenProgram.Variable] {
        guard let values = fields.valueMap("environment") else { return [] }
        for (name, _) in values where name.isEmpty || name.utf8.contains(where: { $0 == 0x3D || $0 < 0x21 }) {
            fields.error("environment", "\"\(name)\" is not the name of an environment variable")
        }
        return values.map { TokenProgram.Variable($0.name, $0.value) }
    }
}

private struct ExecGrant: TokenGrant {
    enum Format: String, CaseIterable {
        /// `{"token": …, "expires_at": …}` or `{"access_token": …, "expires_in": …}`.
        case json
        /// `ExecCredential` of client.authentication.k8s.io, as cloud command lines print it.
        case kubernetes
        case text
    }

    /// What kubectl tells its plugins; some refuse to answer without it.
    static let kubernetesRequest = TokenProgram.Variable(
        "KUBERNETES_EXEC_INFO",
        Secret(
            #"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#
        )
    )

    let program: TokenProgram
    let format: Format
    let defaultLifetime: Duration?
    let placement: TokenPlacement

    let isRenewable = true
    let rotatesRefreshToken = false
    /// A failure for good means that the program was not run.
    let sendsSecrets = false

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: ExecStrategy.kind, subject: nil)
        for (index, argument) in program.command.enumerated() { identity.add("command.\(index)", argument) }
        for variable in program.environment { identity.add("environment.\(variable.name)", secret: variable.value) }
        identity.add("format", format.rawValue)
        placement.addInputs(to: &identity)
        return identity
    }

    func seed(at now: Moment) -> TokenSet? { nil }
    func firstStep(of attempt: GrantAttempt) -> GrantStep { .run(program) }
    func injection(of token: TokenSet) -> Injection { placement.injection(of: token) }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        do throws(BrokenAnswer) {
            return .token(try token(in: reply, at: attempt.now, remarks: &attempt.remarks))
        } catch {
            let name = program.command.first ?? "The program"
            let detail = "\(name) printed no usable token: \(error.reason)."
            return .failure(
                TokenFailure(
                    .transient(retryAfter: nil),
                    problem: GatewayProblem(.tokenTemporarilyUnavailable, detail)
                )
            )
        }
    }

    /// A token with what stands beside it about its end.
    private struct Stated {
        let token: String
        var instant: JSONValue?
        var seconds: JSONValue?
    }

    private func token(
        in reply: TokenReply,
        at now: Moment,
        remarks: inout [String]
    ) throws(BrokenAnswer) -> TokenSet {
        let stated = try stated(in: reply, at: now)
        guard let access = IssuedToken.read(stated.token) else {
            throw BrokenAnswer(reason: "it is empty, too long, or contains characters that no token may contain")
        }
        let token = TokenSet(
            access: access,
            obtainedAt: now.wall,
            expiresAt: try StatedTimes.end(
                of: access,
                at: stated.instant,
                after: stated.seconds,
                usually: defaultLifetime,
                from: now.wall,
                isForgiving: true,
                remarks: &remarks
            )
        )
        if let obstacle = placement.obstacle(to: token) { throw BrokenAnswer(reason: obstacle) }
        return token
    }

    private func stated(in reply: TokenReply, at now: Moment) throws(BrokenAnswer) -> Stated {
        if format == .text {
            guard let value = try Extraction(source: .body).value(in: reply, json: nil, from: nil, at: now.wall) else {
                throw BrokenAnswer(reason: "it printed nothing")
            }
            return Stated(token: value.withValue { $0 })
        }
        guard let answer = reply.document else { throw BrokenAnswer(reason: "the output is not JSON") }
        if format == .kubernetes { return try execCredential(answer) }
        guard let text = answer["token"]?.string ?? answer["access_token"]?.string, !text.isEmpty else {
            throw BrokenAnswer(reason: "there is neither token nor access_token in it")
        }
        return Stated(token: text, instant: answer["expires_at"], seconds: answer["expires_in"])
    }

    private func execCredential(_ answer: JSONValue) throws(BrokenAnswer) -> Stated {
        guard answer["kind"]?.string == "ExecCredential" else {
            throw BrokenAnswer(reason: "the output is not an ExecCredential")
        }
        guard let status = answer["status"], let text = status["token"]?.string, !text.isEmpty else {
            throw BrokenAnswer(reason: "there is no status.token in it (client certificates are not supported)")
        }
        return Stated(token: text, instant: status["expirationTimestamp"])
    }
}
