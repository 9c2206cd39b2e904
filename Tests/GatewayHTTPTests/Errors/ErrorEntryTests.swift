import Foundation
import GatewayTokens
import Testing

@testable import GatewayHTTP

@Suite("What error codes mean", .timeLimit(.minutes(5)))
struct ErrorEntryTests {
    @Test func eachCodeHasOneEntry() {
        let codes = ErrorEntry.all.flatMap(\.codes)
        #expect(Set(codes).count == codes.count)
        let product =
            ProblemKind.allCases.map(\.rawValue) + GatewayProblem.HopError.allCases.map(\.rawValue)
            + [FailureReason.upstreamStatus, .credentialRejected].map(\.description)
        let ofTokenCalls =
            TokenTransportFailure.Reason.allCases.map(\.rawValue) + ProgramFailure.Reason.allCases.map(\.rawValue)
        let known = Set(product).union(ofTokenCalls).union(OAuthErrorCode.known)
        #expect(Set(codes) == known.union(["other", "config_refused"]))
    }

    @Test func noTwoCodesOfTheGatewayHaveTheSameText() {
        let texts = (ErrorEntry.ofAnswers + ErrorEntry.ofRequests + ErrorEntry.ofTokenCalls).map(\.advice.happened)
        #expect(Set(texts).count == texts.count)
    }

    @Test func anEntrySaysWhatHappenedAndWhatToDo() {
        for entry in ErrorEntry.all {
            #expect(entry.advice.happened.hasSuffix("."), "\(entry.codes)")
            #expect(entry.advice.remedy.hasSuffix("."), "\(entry.codes)")
            #expect(!entry.advice.commands.isEmpty)
            #expect(entry.advice.commands.allSatisfy { $0.hasPrefix("authgateway ") })
        }
    }

    @Test func aCodeIsFound() throws {
        let entry = try #require(ErrorEntry.named("invalid_client"))
        #expect(entry.text.contains("who can fix it: the operator of the gateway"))
        #expect(ErrorEntry.named("frob") == nil)
        #expect(try #require(ErrorEntry.named("login-required")).text.contains("(status 503)"))
    }

    @Test(
        "what waiting does not change is no retry",
        arguments: [
            (.upstreamUnreachable, .certificateUntrusted, .fixConfiguration),
            (.upstreamUnreachable, .certificateNamesOther, .fixConfiguration),
            (.upstreamUnreachable, .nameNotResolved, .fixConfiguration),
            (.upstreamUnreachable, .handshakeFailed, .fixConfiguration),
            (.upstreamUnreachable, .connectionRefused, .retryLater), (.upstreamUnreachable, nil, .retryLater),
            (.upstreamTimeout, .nameTimeout, .retryLater),
            (.tokenEndpointUnreachable, .certificateUntrusted, .fixConfiguration),
            (.tokenEndpointUnreachable, .connectionTerminated, .retryLater), (.locked, nil, .askOperator),
        ] as [(ProblemKind, GatewayProblem.HopError?, ProblemRecovery)]
    )
    func aRecoveryHelps(_ kind: ProblemKind, _ error: GatewayProblem.HopError?, _ recovery: ProblemRecovery) {
        #expect(GatewayProblem(kind, "No.", hopError: error).recovery == recovery)
    }

    @Test("docs/errors.md is made from the entries; UPDATE_EXPECTED=1 writes it")
    func thePageIsCurrent() throws {
        let page = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../docs/errors.md")
        if ProcessInfo.processInfo.environment["UPDATE_EXPECTED"] != nil {
            try ErrorPage.markdown.write(to: page, atomically: true, encoding: .utf8)
        }
        let text = try String(contentsOf: page, encoding: .utf8)
        #expect(text == ErrorPage.markdown)
    }
}

@Suite("Alerts of TLS", .timeLimit(.minutes(5)))
struct TLSAlertTests {
    private func alert(_ word: String) -> TLSAlert? {
        TLSAlert(
            in: "sslError([Error: 1 error:10000000:SSL routines:OPENSSL_internal:\(word) at /ssl/tls_record.cc:592])"
        )
    }

    @Test(
        "a received alert has the name of RFC 8446",
        arguments: [
            ("TLSV1_ALERT_CERTIFICATE_REQUIRED", "certificate_required"), ("TLSV1_ALERT_UNKNOWN_CA", "unknown_ca"),
            ("SSLV3_ALERT_HANDSHAKE_FAILURE", "handshake_failure"),
            ("TLSV1_ALERT_PROTOCOL_VERSION", "protocol_version"),
            ("SSLV3_ALERT_BAD_CERTIFICATE", "bad_certificate"),
        ]
    )
    func aReceivedAlertIsNamed(_ word: String, _ name: String) {
        #expect(alert(word)?.name == name)
    }

    @Test(arguments: ["WRONG_VERSION_NUMBER", "CERTIFICATE_VERIFY_FAILED", "TLSV1_ALERT_", "", "TLSV1_ALERT_\(long)"])
    func whatThisEndFoundIsNoAlert(_ word: String) {
        #expect(alert(word) == nil)
    }

    private static let long = String(repeating: "A", count: 64)

    @Test func anyOtherTextIsNoAlert() {
        #expect(TLSAlert(in: "uncleanShutdown") == nil)
        #expect(TLSAlert(in: "") == nil)
    }

    @Test func theTextNamesServerAlertAndKey() {
        #expect(
            alert("TLSV1_ALERT_CERTIFICATE_REQUIRED")?.detail(of: "https://api.example", owner: "the route")
                == "https://api.example refused the TLS connection with the alert certificate_required. "
                + "It wants a client certificate (tls.certificate of the route)."
        )
        #expect(
            alert("TLSV1_ALERT_INTERNAL_ERROR")?.detail(of: "https://api.example", owner: "the route")
                == "https://api.example refused the TLS connection with the alert internal_error."
        )
    }
}

@Suite("Why a request failed", .timeLimit(.minutes(5)))
struct FailureReasonTests {
    @Test func everyKindOfProblemHasAWord() {
        for kind in ProblemKind.allCases {
            #expect(FailureReason(GatewayProblem(kind, "")).description == kind.rawValue)
        }
    }

    @Test func theWayToTheUpstreamIsToldApart() {
        for error in GatewayProblem.HopError.allCases {
            let problem = GatewayProblem(.upstreamUnreachable, "", hopError: error)
            #expect(FailureReason(problem).description == error.rawValue)
        }
    }

    @Test func ofATokenEndpointTheKindSaysIt() {
        let problem = GatewayProblem(
            .tokenEndpointUnreachable,
            "",
            hopError: .connectionRefused,
            nextHop: "login.example.com"
        )
        #expect(FailureReason(problem).description == "token-endpoint-unreachable")
    }

    @Test func noWordHasTwoMeanings() {
        let words =
            ProblemKind.allCases.map(\.rawValue) + GatewayProblem.HopError.allCases.map(\.rawValue)
            + [FailureReason.upstreamStatus, .credentialRejected].map(\.description)
        #expect(Set(words).count == words.count)
    }
}

/// The text of docs/errors.md.
private enum ErrorPage {
    static let markdown = """
        # Errors

        This page is made from the texts of the program. `authgateway explain-error CODE` prints one entry, and
        `authgateway explain-error` lists all codes. With `--json` the output is for programs.

        | code in | what it is |
        |---|---|
        | an answer | the gateway answered by itself: `code` in the problem document, and the end of `type` |
        | the audit log | `error_code`: of the answer, of the failed request, of the call for a token, or of the authority |
        | the log | the same codes, with the request's ID where a request failed |
        | metrics | labels of `gateway_problems_total` and `gateway_requests_failed_total` |

        In the commands, `NAME` is the credential, `CLIENT` a client of `access.clients`, `URL` the address of the request.
        `ID` is `Gateway-Request-Id` of the answer.

        `recovery` in a problem document says what helps, for programs:

        | `recovery` | what it means |
        |---|---|
        \(ProblemRecovery.allCases.map { "| `\($0.rawValue)` | \($0.meaning) |" }.joined(separator: "\n"))

        ## Answers of the gateway

        \(entries(ErrorEntry.ofAnswers))
        ## Reasons of failed requests

        The event `request_failed` has these reasons, besides the codes above.

        \(entries(ErrorEntry.ofRequests))
        ## Calls for tokens

        Events of a credential have these codes, besides those of failed requests: there, `connection_refused` is about the token
        endpoint. `config_refused` is the event of a reload.

        \(entries(ErrorEntry.ofTokenCalls))
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
