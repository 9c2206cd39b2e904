import GatewayCore

/// Asks the token server for the token of one subject.
struct DelegatedGrant: TokenGrant {
    let inputs: [(name: String, value: Secret)]
    /// Whose token it is: that of the configuration, or the one that a request has named.
    let uniqueID: String?
    let isNamedByRequest: Bool
    let request: RequestTemplate
    let authorization: DelegatedRequestAuth
    let response: DelegatedResponse
    let defaultLifetime: Duration
    let initial: Secret?
    /// nil: it is used until it is rejected, unless it says its end itself.
    let initialEnd: UnixTime?
    let placement: TokenPlacement

    let isRenewable = true
    let rotatesRefreshToken = false

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: DelegatedStrategy.kind, subject: uniqueID)
        for input in inputs { identity.add(input.name, secret: input.value) }
        authorization.addInputs(to: &identity)
        identity.add("initial_token", secret: initial)
        identity.add("initial_token_expires", initialEnd?.rfc3339)
        return identity
    }

    /// The others are in each request.
    var hiddenSecrets: [Secret] { [initial].compactMap(\.self) }

    var authorityEndpoints: [AuthorityEndpoint] { [AuthorityEndpoint](request.destination) }

    func seed(at now: Moment) -> TokenSet? {
        initial.map { token in
            let ends = [initialEnd, UnverifiedJWT(token)?.expiresAt].compactMap(\.self)
            return TokenSet(access: token, obtainedAt: now.wall, expiresAt: ends.min())
        }
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        var values: [String: Secret] = [:]
        if isNamedByRequest, let uniqueID { values["unique_id"] = Secret(uniqueID) }
        guard var request = try? request.request(with: values) else {
            let detail = "The request to the token server at \(request.host) cannot be written."
            return .impossible(TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail)))
        }
        do throws(TokenFailure) {
            try authorization.authenticate(&request, with: values, in: attempt)
            return .request(request)
        } catch {
            return .impossible(error)
        }
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let now = attempt.now
        switch StatusMap.standard.outcome(of: reply.status) {
        case .success:
            do throws(BrokenAnswer) {
                return .token(try token(in: reply, at: now, remarks: &attempt.remarks))
            } catch {
                return .failure(error.failure(of: "The token server at \(request.host)", status: reply.status))
            }
        case .transient: return .failure(transient(reply, at: now))
        case .terminal, .unlisted: return repair(after: reply, in: attempt) ?? .failure(refusal(reply, at: now))
        }
    }

    private func repair(after reply: TokenReply, in attempt: GrantAttempt) -> GrantAnswer? {
        guard authorization.signs else { return nil }
        let server = "The token server at \(request.host)"
        return AssertionRepair.statement.answer(to: reply, in: attempt, from: server, sign: firstStep)
    }

    private func token(
        in reply: TokenReply,
        at now: Moment,
        remarks: inout [String]
    ) throws(BrokenAnswer) -> TokenSet {
        let json = response.format == .json ? reply.document : nil
        if response.format == .json, json == nil { throw BrokenAnswer(reason: "the body is not JSON") }
        let place = response.format == .json ? Extraction(source: .json(response.token)) : Extraction(source: .body)
        let found = try place.value(in: reply, json: json, from: nil, at: now.wall)
        guard let access = found?.withValue({ IssuedToken.read($0) }),
            !access.withValue({ $0.contains(" ") || $0.contains("<") })
        else { throw BrokenAnswer(reason: "\(place.place) is missing, or is no token") }
        let token = TokenSet(
            access: access,
            obtainedAt: now.wall,
            expiresAt: try StatedTimes.end(
                of: access,
                at: json.flatMap { response.expiresAt.value(in: $0) },
                after: json.flatMap { response.expiresIn.value(in: $0) },
                usually: defaultLifetime,
                from: now.wall,
                isForgiving: true,
                remarks: &remarks
            )
        )
        if let obstacle = placement.obstacle(to: token) { throw BrokenAnswer(reason: obstacle) }
        return token
    }

    private func transient(_ reply: TokenReply, at now: Moment) -> TokenFailure {
        .transient(
            authority: "The token server at \(request.host)",
            status: reply.status,
            code: cause(of: reply).code,
            wait: reply.retryAfter(at: now)
        )
    }

    /// These speak of the subject and not of us, and one that is unknown today may be known tomorrow.
    private static let statusesAboutSubjects: Set = [400, 403, 404, 409, 410, 422]
    private static let patienceWithSubjects = Duration.seconds(60)

    private func refusal(_ reply: TokenReply, at now: Moment) -> TokenFailure {
        guard !isNamedByRequest || !Self.statusesAboutSubjects.contains(reply.status) else {
            return TokenFailure(
                .transient(retryAfter: reply.retryAfter(at: now) ?? Self.patienceWithSubjects),
                problem: GatewayProblem(
                    .routeForbidden,
                    "The token server at \(request.host) gives no token for this subject (status \(reply.status)).",
                    cause: cause(of: reply)
                )
            )
        }
        let advice =
            switch reply.status {
            case 401, 403: "check request_auth."
            case 404: "check url and unique_id."
            case 300..<400: "a redirect is never followed, so set url to the final address."
            default: "check url, headers, body and unique_id."
            }
        return TokenFailure(
            .terminal,
            problem: GatewayProblem(
                .credentialMisconfigured,
                "The token server at \(request.host) refused to give a token (status \(reply.status)): \(advice)",
                cause: cause(of: reply)
            ),
            // Directories lock accounts.
            isRetried: !authorization.sendsPassword || RefreshError(reply)?.blamesConfiguration == true
        )
    }

    private func cause(of reply: TokenReply) -> GatewayProblem.Cause {
        let code = reply.document?["error"]?.string
        return GatewayProblem.Cause(code: OAuthErrorCode.allowListed(code), httpStatus: reply.status)
    }

    func injection(of token: TokenSet) -> Injection { placement.injection(of: token) }
}

/// The tokens of all subjects that requests name.
struct DelegatedSubjects: SubjectGrants {
    let subjects: NamedSubjects
    /// That of no subject.
    let common: DelegatedGrant

    var field: String { subjects.field }
    var limit: Int { subjects.limit }
    var isRenewable: Bool { common.isRenewable }
    var authorityEndpoints: [AuthorityEndpoint] { common.authorityEndpoints }

    var identity: GrantIdentity {
        var identity = common.identity
        identity.add("unique_id.header", subjects.field.lowercased())
        return identity
    }

    func allows(_ subject: String) -> Bool { subjects.allows(subject) }

    func grant(for subject: String) -> any TokenGrant {
        DelegatedGrant(
            inputs: common.inputs,
            uniqueID: subject,
            isNamedByRequest: true,
            request: common.request,
            authorization: common.authorization,
            response: common.response,
            defaultLifetime: common.defaultLifetime,
            initial: nil,
            initialEnd: nil,
            placement: common.placement
        )
    }
}
