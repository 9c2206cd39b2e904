import Foundation
import GatewayHTTP
import GatewayTokens
import Testing

@Suite("What error codes mean", .timeLimit(.minutes(5)))
struct ErrorEntryTests {
    @Test func eachCodeHasOneEntry() {
        let codes = ErrorEntry.all.flatMap(\.codes)
        #expect(Set(codes).count == codes.count)
        let product =
            ProblemKind.allCases.map(\.rawValue) + GatewayProblem.HopError.allCases.map(\.rawValue)
            + [FailureReason.upstreamStatus, .credentialRejected].map(\.description)
        #expect(Set(codes) == Set(product).union(OAuthErrorCode.known).union(["other"]))
    }

    @Test func noTwoCodesOfTheGatewayHaveTheSameText() {
        let texts = (ErrorEntry.ofAnswers + ErrorEntry.ofRequests).map(\.advice.happened)
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
        #expect(entry.text.contains("who can mend it: the operator of the gateway"))
        #expect(ErrorEntry.named("frob") == nil)
        #expect(try #require(ErrorEntry.named("login-required")).text.contains("(status 503)"))
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
