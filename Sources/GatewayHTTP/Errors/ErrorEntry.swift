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

    /// The codes that authorities send, by what they mean.
    static let ofAuthorities = AuthorityRefusal.allCases.map {
        ErrorEntry(codes: $0.codes, title: $0.title, advice: $0.advice)
    }

    package static let all = ofAnswers + ofRequests + ofAuthorities

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

/// The text of docs/errors.md, which a test compares with the file.
enum ErrorPage {
    static let markdown = """
        # Errors

        This page is made from the texts of the program. `authgateway explain-error CODE` prints one entry, and
        `authgateway explain-error` lists all codes. With `--json` the output is for programs.

        | code in | what it is |
        |---|---|
        | an answer | the gateway answered by itself: `code` in the problem document, and the end of `type` |
        | the audit log | `error_code`: of the answer, of the failed request, or of the authority |
        | the log | the same codes, with the request's ID where a request failed |
        | metrics | labels of `gateway_problems_total` and `gateway_requests_failed_total` |

        In the commands, `NAME` is the credential, `CLIENT` a client of `access.clients`, `URL` the address of the request.
        `ID` is `Gateway-Request-Id` of the answer.

        ## Answers of the gateway

        \(entries(ErrorEntry.ofAnswers))
        ## Reasons of failed requests

        The event `request_failed` has these reasons, besides the codes above.

        \(entries(ErrorEntry.ofRequests))
        ## Codes of authorities

        The gateway repeats these codes of authorities. Whatever else an authority sends is `other`.

        \(entries(ErrorEntry.ofAuthorities))
        """

    private static func entries(_ entries: [ErrorEntry]) -> String {
        entries.map(\.markdown).joined(separator: "\n")
    }
}

extension ErrorEntry {
    fileprivate var markdown: String {
        let heading = codes.count == 1 ? "### \(codes[0])" : "### \(title)"
        let names = codes.map { "`\($0)`" }.joined(separator: ", ")
        let what = codes.count == 1 ? "\(title)\(status.map { ": status \($0)" } ?? "")." : "\(names)."
        var lines = [heading, "", what, ""]
        lines.append("- What happened: \(advice.happened)")
        lines.append("- Who can fix it: \(advice.person.rawValue).")
        lines.append("- What to do: \(advice.remedy)")
        lines += advice.commands.map { "- Type: `\($0)`" }
        return lines.joined(separator: "\n") + "\n"
    }
}
