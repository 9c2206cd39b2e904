import GatewayProxy
import Testing

@testable import GatewayApp
@testable import GatewayTools

/// What a command sends for an operation.
@Suite("Questions to the admin listener", .timeLimit(.minutes(5)))
struct AdminQuestionTests {
    @Test("the command that has just failed is no advice")
    func aCommandIsNotItsOwnAdvice() {
        let typed = ["authgateway", "--config", "g.yaml", "token", "refresh", "me"]
        #expect(AdminClient.isUnderWay("authgateway token refresh me", as: typed))
        #expect(!AdminClient.isUnderWay("authgateway token refresh you", as: typed))
        #expect(!AdminClient.isUnderWay("authgateway login me", as: typed))
    }

    @Test func methodPathAndBodyAreThoseOfTheOperation() {
        let operations = AdminAPI.operations
        let locking = AdminQuestion(operations.lock, of: "a/b", with: NoInput())
        #expect(locking.method == "POST" && locking.path == "/api/tokens/a%2Fb/lock")
        #expect(locking.body == nil && locking.needsToken)
        let cancelling = AdminQuestion(operations.cancelLogin, of: "1", with: NoInput())
        #expect(cancelling.method == "DELETE" && cancelling.path == "/api/logins/1" && cancelling.needsToken)
        let listing = AdminQuestion(operations.tokens, with: NoInput())
        #expect(listing.method == "GET" && listing.path == "/api/tokens" && !listing.needsToken)
        let noting = AdminQuestion(operations.noteBackup, with: BackupToNote(includesKeys: true))
        #expect(noting.body == Array(#"{"keys":true}"#.utf8))
    }

    /// The role decides about the token alone.
    @Test func anOperationOfViewersKeepsItsMethodAndItsBody() {
        let operation = AdminOperation<any OperationRunner, PastedAnswer, Readiness>(
            .post,
            "/api/search",
            .viewer,
            body: .read(upTo: 100),
            isConflict: { !$0.isReady }
        ) { _, _, _ in
            .success(Readiness(isReady: true, reasons: []))
        }
        let question = AdminQuestion(operation, with: PastedAnswer("x"))
        #expect(question.method == "POST" && question.path == "/api/search" && !question.needsToken)
        #expect(question.body == Array(#"{"answer":"x"}"#.utf8))
        #expect(operation.isAnswered(with: 409))
    }
}
