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
                + "It requires a client certificate (tls.certificate of the route)."
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

        Look up a code here, or on the terminal, which also says who can fix it:

        ```text
        authgateway explain-error CODE
        ```

        | Code in | Meaning |
        |---|---|
        | `code` in a response's body, a problem document (RFC 9457) | the gateway answered by itself; `type` ends with the code |
        | `error_code` in the [audit log](audit.md), and the log | what failed: a response, a request or a token request |
        | labels of `gateway_problems_total` and `gateway_requests_failed_total` | the same codes |

        These commands help with most of them:

        ```text
        authgateway explain ID          what happened to a request; ID is the Gateway-Request-Id header of its response
        authgateway status NAME         why a credential fails, with the message of the authorization server
        authgateway doctor              checks names, networks, certificates, clocks and files
        authgateway config explain KEY  describes a key of the configuration
        ```

        Programs can act on `recovery` in the problem document:

        | `recovery` | Meaning |
        |---|---|
        \(ProblemRecovery.allCases.map { "| `\($0.rawValue)` | \($0.meaning) |" }.joined(separator: "\n"))

        ## Responses of the gateway

        | Status | Code | What happened | What to do |
        |---|---|---|---|
        \(rows(ErrorEntry.ofAnswers) { "| \($0.status ?? 0) " })

        ## Failed requests

        The audit log has these reasons of `request_failed`, besides the codes above. In events of a credential, they are about the token
        endpoint.

        | Code | What happened | What to do |
        |---|---|---|
        \(rows(ErrorEntry.ofRequests))

        ## Token requests

        | Code | What happened | What to do |
        |---|---|---|
        \(rows(ErrorEntry.ofTokenCalls))

        ## Codes of authorization servers

        The gateway repeats only these codes of authorization servers. Any other is `other`.

        | Code | What happened | What to do |
        |---|---|---|
        \(rows(ErrorEntry.ofAuthorities))

        """

    /// - Parameter first: The cells before the code.
    private static func rows(_ entries: [ErrorEntry], first: (ErrorEntry) -> String = { _ in "" }) -> String {
        entries.map { first($0) + $0.cells }.joined(separator: "\n")
    }
}

extension ErrorEntry {
    /// A code can be linked to; of several that mean the same, the first.
    fileprivate var cells: String {
        let names = codes.map { "`\($0)`" }.joined(separator: ", ")
        let remedy = ([advice.remedy] + commandsToShow.map { "`\($0)`" }).joined(separator: " ")
        return "| <a id=\"\(codes[0])\"></a>\(names) | \(advice.happened) | \(remedy) |"
    }

    /// Not those that the page names once for all codes.
    private var commandsToShow: [String] {
        let named = [["explain", "ID"], ["status"], ["status", "NAME"], ["doctor"]].map { GatewayCommand.line($0) }
        return advice.commands.filter { !named.contains($0) && !$0.contains(" config explain ") }
    }
}
