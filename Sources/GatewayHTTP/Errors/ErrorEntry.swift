/// One entry of the list of error codes.
package struct ErrorEntry: Hashable, Sendable, Encodable {
    /// Several codes of authorities mean the same.
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
                "The upstream itself answered with a status of 500 or more. The gateway passed the answer on.",
                .upstream,
                "Read the log of the upstream.",
                "authgateway explain ID"
            )
        ),
        ErrorEntry(
            codes: [FailureReason.credentialRejected.description],
            title: "The upstream rejected the credential",
            advice: ErrorAdvice(
                "The upstream answered 401 or 403, or as rejected_when describes, and no newer token helped or could be had: the client's"
                    + " budget of renewals may be empty. The gateway passed the answer on.",
                .operator,
                "Check the scopes of the credential, and whom it speaks for.",
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
                "The gateway and the token endpoint did not agree on TLS, or its certificate is untrusted or for another name.",
                .operator,
                "Read the reason in the status of the credential. If its CA is your own, add it to this machine's (update-ca-certificates).",
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
                "Check what answers at the URL of the credential.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: ["invalid_answer"],
            title: "The token endpoint's response is not valid HTTP",
            advice: ErrorAdvice(
                "The response of the token endpoint is not valid HTTP, or its content coding cannot be read.",
                .operator,
                "Check what answers at the URL of the credential.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: ["unsendable_request"],
            title: "The token request cannot be written as HTTP",
            advice: ErrorAdvice(
                "A value of the credential, such as one with a line break, cannot be sent in HTTP.",
                .operator,
                "Correct the value. Secret files often end with a line break that does not belong to the secret.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: ["missing_assertion"],
            title: "The assertion cannot be read",
            advice: ErrorAdvice(
                "The assertion that the credential is to send is not where the configuration says, or is empty.",
                .operator,
                "Read the reason in the status of the credential. The gateway tries again by itself.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: [ProgramFailure.Reason.notFound.rawValue],
            title: "The program does not exist",
            advice: ErrorAdvice(
                "There is no such program as the credential names, or it may not be run.",
                .operator,
                "Correct the command of the credential, or make the program executable.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: [ProgramFailure.Reason.notStarted.rawValue],
            title: "The program could not be started",
            advice: ErrorAdvice(
                "The system had no room for another process, or too few file descriptors.",
                .operator,
                "Check the limits of the machine. The gateway tries again by itself.",
                "authgateway doctor"
            )
        ),
        ErrorEntry(
            codes: [ProgramFailure.Reason.timedOut.rawValue],
            title: "The program took too long",
            advice: ErrorAdvice(
                "The program did not end within its timeout, or within the 15 s of one call for a token.",
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
                "Have the program print the token and nothing else.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: [ProgramFailure.Reason.failed.rawValue],
            title: "The program failed",
            advice: ErrorAdvice(
                "The program ended with an error status or a signal, or printed no token.",
                .operator,
                "Run the program by hand as the user of the gateway.",
                "authgateway status NAME"
            )
        ),
        ErrorEntry(
            codes: ["config_refused"],
            title: "A changed configuration was refused",
            advice: ErrorAdvice(
                "A reload found a mistake, so the gateway goes on with the configuration before it.",
                .operator,
                "Correct the mistake. The gateway takes up the file when it changes.",
                "authgateway check",
                "authgateway audit query --event config_refused"
            )
        ),
    ]

    /// The codes that authorities send, by what they mean.
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
