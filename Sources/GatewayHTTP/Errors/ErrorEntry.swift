/// One entry of the list of error codes.
package struct ErrorEntry: Hashable, Sendable, Encodable {
    /// Several codes of authorization servers mean the same.
    package let codes: [String]
    package let title: String
    /// The status that the client gets, where the gateway answers by itself.
    package let status: Int?
    package let advice: ErrorAdvice

    private static let ofUpstreams = [
        ErrorEntry(
            codes: [FailureReason.upstreamStatus.description],
            title: "The upstream answered 500 or more",
            advice: ErrorAdvice(
                "The upstream answered with a status of 500 or more, and the gateway passed the response on.",
                .upstream,
                "Read the upstream's log.",
                "authgateway explain ID"
            )
        ),
        ErrorEntry(
            codes: [FailureReason.credentialRejected.description],
            title: "The upstream rejected the credential",
            advice: ErrorAdvice(
                "The upstream rejected the credential (401, 403 or rejected_when), and no newer token helped or was available: the client's"
                    + " renewal budget may be empty. The gateway passed the response on.",
                .operator,
                "Check the credential's scopes, and which user it acts for.",
                "authgateway explain ID",
                "authgateway status NAME"
            )
        ),
    ]

    private init(codes: [String], title: String, status: Int? = nil, advice: ErrorAdvice) {
        self.codes = codes
        self.title = title
        self.status = status
        self.advice = advice
    }

    /// The codes of problem documents, in the order of their status.
    static let ofAnswers = ProblemKind.allCases
        .map { ErrorEntry(codes: [$0.rawValue], title: $0.title, status: $0.status, advice: $0.advice) }
        .sorted { ($0.status ?? 0, $0.codes[0]) < ($1.status ?? 0, $1.codes[0]) }

    /// The reasons of failed requests that are no problem kinds.
    static let ofRequests =
        ofUpstreams
        + GatewayProblem.HopError.allCases.map { error in
            let words = error.rawValue.split(separator: "_").map { $0 == "tls" ? "TLS" : String($0) }
            let title = words.joined(separator: " ")
            return ErrorEntry(
                codes: [error.rawValue],
                title: title.prefix(1).uppercased() + title.dropFirst(),
                advice: error.advice
            )
        }

    /// Why a call for a token brought no answer, where no reason of a failed request has the same name, and events that a person
    /// may look up.
    static let ofTokenCalls = [
        ErrorEntry(
            codes: ["tls_failed"],
            title: "No TLS connection to the token endpoint",
            advice: ErrorAdvice(
                "The gateway and the token endpoint could not agree on TLS, or its certificate is untrusted or for another name.",
                .operator,
                "Read the reason in the credential's status. If you have your own CA, add it to this machine's (update-ca-certificates).",
                "authgateway status NAME",
                "authgateway doctor"
            )
        ),
        ErrorEntry(
            codes: ["answer_too_large"],
            title: "The token endpoint's response is too large",
            advice: ErrorAdvice(
                "The response of the token endpoint is longer than 1 MiB.",
                .operator,
                "Check what answers at the credential's URL.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: ["invalid_answer"],
            title: "The token endpoint's response is not valid HTTP",
            advice: ErrorAdvice(
                "The response of the token endpoint is not valid HTTP, or cannot be decompressed.",
                .operator,
                "Check what answers at the credential's URL.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: ["unsendable_request"],
            title: "The token request cannot be written as HTTP",
            advice: ErrorAdvice(
                "A value of the credential cannot be sent in HTTP, for example because it contains a line break.",
                .operator,
                "Fix the value. Secret files often end with a line break that is not part of the secret.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: ["missing_assertion"],
            title: "The assertion cannot be read",
            advice: ErrorAdvice(
                "The assertion that the credential should send is empty, or not where the configuration says.",
                .operator,
                "Read the reason in the credential's status. The gateway retries by itself.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: [ProgramFailure.Reason.notFound.rawValue],
            title: "The program does not exist",
            advice: ErrorAdvice(
                "The program that the credential names does not exist, or may not be run.",
                .operator,
                "Fix the credential's command, or make the program executable.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: [ProgramFailure.Reason.notStarted.rawValue],
            title: "The program could not be started",
            advice: ErrorAdvice(
                "The system had no processes or file descriptors left.",
                .operator,
                "Check the machine's limits. The gateway retries by itself.",
                "authgateway doctor"
            )
        ),
        ErrorEntry(
            codes: [ProgramFailure.Reason.timedOut.rawValue],
            title: "The program took too long",
            advice: ErrorAdvice(
                "The program did not exit within its timeout, or within the 15 s of a token request.",
                .operator,
                "Run the program by hand, and see whether it waits for input or for the network.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: [ProgramFailure.Reason.outputTooLarge.rawValue],
            title: "The program printed too much",
            advice: ErrorAdvice(
                "The output of the program is longer than the gateway reads.",
                .operator,
                "Make the program print the token and nothing else.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: [ProgramFailure.Reason.failed.rawValue],
            title: "The program failed",
            advice: ErrorAdvice(
                "The program exited with an error, was killed by a signal, or printed no token.",
                .operator,
                "Run the program by hand as the gateway's user.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: ["config_refused"],
            title: "A changed configuration was refused",
            advice: ErrorAdvice(
                "A reload found a mistake, so the gateway keeps the previous configuration.",
                .operator,
                "Fix the mistake. The gateway reads the file when it changes.",
                "authgateway check",
                "authgateway audit query --event config_refused"
            )
        ),
    ]

    /// The codes that authorization servers send, by what they mean.
    static let ofAuthorities = AuthorityRefusal.allCases.map {
        ErrorEntry(codes: $0.codes, title: $0.title, advice: $0.advice)
    }

    package static let all = ofAnswers + ofRequests + ofTokenCalls + ofAuthorities

    package static func named(_ code: String) -> ErrorEntry? { all.first { $0.codes.contains(code) } }

    /// The command that explains a code; nil for one without an entry.
    package static func command(explaining code: String?) -> String? {
        code.flatMap { named($0) == nil ? nil : GatewayCommand.line("explain-error", $0) }
    }

    /// What the command prints.
    package var text: String {
        let answer = status.map { " (status \($0))" } ?? ""
        var lines = ["\(codes.joined(separator: ", ")): \(title)\(answer)", ""]
        lines.append("  what happened:  \(advice.happened)")
        lines.append("  who can fix it: \(advice.person.rawValue)")
        lines.append("  what to do:     \(advice.remedy)")
        lines += advice.commands.map { "    \($0)" }
        return lines.joined(separator: "\n") + "\n"
    }
}
