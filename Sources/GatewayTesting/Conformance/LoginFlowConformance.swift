import GatewayHTTP
package import GatewayTokens

/// What every ``LoginFlow`` promises. Run it from the strategy's own tests.
///
///     try LoginFlowConformance(flow) { attempt in "\(attempt.redirectURI)?code=c&state=\(state of attempt)" }.check()
package struct LoginFlowConformance {
    private let flow: any LoginFlow
    private let answer: (LoginAttempt) -> String
    private let now = Moment.sample

    /// - Parameter answer: The address that the browser ends on after a login that went well.
    package init(_ flow: any LoginFlow, answer: @escaping (LoginAttempt) -> String) {
        self.flow = flow
        self.answer = answer
    }

    package func check() throws {
        try showsThePersonNothingButThePage()
        try takesTheAnswer()
        try readsWithoutSideEffects()
        try refusesWhatIsNoAnswer()
        try refusesAnotherAddress()
        try neverRepeatsTheAnswer()
    }

    private func attempt() -> LoginAttempt {
        var random = SplitMix(seed: 1)
        return LoginAttempt(redirectURI: flow.redirect.uri(port: 50_123), random: &random)
    }

    private func showsThePersonNothingButThePage() throws {
        let attempt = attempt()
        let page = flow.page(of: attempt)
        try promise((try? AuthorityURL(page)) != nil, "the page is https, or http on loopback")
        try promise(!attempt.verifier.withValue { page.contains($0) }, "the verifier does not stand in the address")
        try promise(page == flow.page(of: attempt), "one attempt has one page")
    }

    private func takesTheAnswer() throws {
        let attempt = attempt()
        for answer in [LoginAnswer.redirect(answer(attempt)), .pasted(answer(attempt))] {
            switch flow.read(answer, of: attempt, at: now) {
            case .refused(_, let reason): throw ConformanceFailure("the good answer is taken, not refused: \(reason)")
            case .foreign: throw ConformanceFailure("the good answer belongs to the attempt")
            case .token(let token): try promise(token.obtainedAt == now.wall, "the token is dated")
            case .exchange(let request):
                try promise(request.method == .post, "a code is exchanged by POST")
                try promise(!request.url.text.contains("code="), "no code stands in the URL of a request")
            }
        }
    }

    private func readsWithoutSideEffects() throws {
        let attempt = attempt()
        let address = answer(attempt)
        let first = flow.read(.redirect(address), of: attempt, at: now)
        try promise(first == flow.read(.redirect(address), of: attempt, at: now), "the same answer means the same")
    }

    private func refusesWhatIsNoAnswer() throws {
        let attempt = attempt()
        let long = attempt.redirectURI + "?x=" + String(repeating: "a", count: 100_000)
        let junk = ["", " ", "\0", "?", "://", "http://", attempt.redirectURI, attempt.redirectURI + "?", "é", long]
        for text in junk {
            try promise(
                reason(flow.read(.redirect(text), of: attempt, at: now)) != nil,
                "\(text.prefix(40).debugDescription) is no answer"
            )
        }
    }

    private func refusesAnotherAddress() throws {
        let attempt = attempt()
        let query = answer(attempt).drop { $0 != "?" }
        for address in ["https://evil.example/", "\(attempt.redirectURI).evil.example/", "\(attempt.redirectURI)/x"] {
            try promise(
                reason(flow.read(.redirect(address + query), of: attempt, at: now)) == "other_address",
                "an answer at another address is refused as that"
            )
        }
    }

    private func neverRepeatsTheAnswer() throws {
        let attempt = attempt()
        for query in ["?error=canary&error_description=canary", "?code=canary&state=canary", "?access_token=canary"] {
            let step = flow.read(.redirect(attempt.redirectURI + query), of: attempt, at: now)
            let (problem, reason) = try refusal(step, query)
            try promise(!"\(problem)\(reason)".contains("canary"), "the answer is not repeated")
            try promise(problem.kind == .loginFailed && !problem.detail.isEmpty, "the refusal is explained")
        }
    }

    private func refusal(_ step: LoginStep, _ query: String) throws -> (GatewayProblem, reason: String) {
        switch step {
        case .refused(let problem, let reason): (problem, reason)
        case .foreign(let refusal): (refusal.problem, refusal.reason)
        case .exchange, .token: throw ConformanceFailure("\(query) is refused")
        }
    }

    private func reason(_ step: LoginStep) -> String? { try? refusal(step, "").reason }
}
