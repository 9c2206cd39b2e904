/// The text of docs/errors.md, which a test compares with the file.
package enum ErrorPage {
    package static let markdown = """
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
        lines.append("- Who can mend it: \(advice.person.rawValue).")
        lines.append("- What to do: \(advice.remedy)")
        lines += advice.commands.map { "- Type: `\($0)`" }
        return lines.joined(separator: "\n") + "\n"
    }
}
