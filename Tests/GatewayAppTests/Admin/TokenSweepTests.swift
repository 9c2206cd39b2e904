import GatewayTokens
import Testing

@testable import GatewayApp

@Suite("The order of an operation on all credentials", .timeLimit(.minutes(1)))
struct TokenSweepTests {
    private struct Refusal: Error, CustomStringConvertible {
        let description: String
    }

    private let operations = AdminAPI.operations

    private func token(
        _ name: String,
        _ state: TokenStatus.State = .valid,
        parent: String? = nil,
        memberOf credential: String? = nil,
        isRenewable: Bool = true,
        isStatic: Bool? = nil
    ) -> TokenStatus {
        var token = TokenStatus(
            credential: name,
            strategy: "sample",
            subject: nil,
            state: state,
            generation: 1,
            isRenewable: isRenewable
        )
        token.parent = parent
        token.perSubjectCredential = credential
        token.isStatic = isStatic
        return token
    }

    private var tokens: [TokenStatus] {
        [
            token("users", .locked), token("app"), token("child", parent: "app"), token("grandchild", parent: "child"),
            token("users[42]", memberOf: "users"), token("none", .empty), token("key", isStatic: true),
            token("brought", isRenewable: false),
        ]
    }

    private func steps(
        _ operation: AdminAPI.Operation<OperationReport>,
        locking locks: Bool = false
    ) -> [String] {
        TokenSweep(operation, onAllOf: tokens, perSubject: ["users"], locking: locks).steps.map {
            "\($0.operation.verb) \($0.credential)"
        }
    }

    @Test func weakerTokensComeBeforeThoseThatTheyWereMadeFrom() {
        #expect(
            steps(operations.revoke) == [
                "revoke grandchild", "revoke child", "revoke app", "revoke users[42]", "revoke brought",
            ]
        )
    }

    @Test func everyCredentialIsLockedBeforeTheFirstAuthorityIsAsked() {
        #expect(
            steps(operations.revoke, locking: true).prefix(8) == [
                "lock users", "lock app", "lock child", "lock grandchild", "lock none", "lock key", "lock brought",
                "revoke grandchild",
            ]
        )
    }

    @Test func onlyWhatCanBeRenewedIsRefreshed() {
        #expect(
            steps(operations.refresh) == ["refresh grandchild", "refresh child", "refresh app", "refresh users[42]"]
        )
    }

    @Test func oneCredentialIsLockedFirst() {
        let sweep = TokenSweep(operations.revoke, on: "app", locking: true)
        #expect(sweep.steps.map(\.operation.verb) == ["lock", "revoke"])
        #expect(TokenSweep(operations.clear, on: "app", locking: false).steps.map(\.operation.verb) == ["clear"])
    }

    @Test func oneFailureDoesNotStopTheRest() async {
        let sweep = TokenSweep(operations.clear, onAllOf: tokens, perSubject: ["users"], locking: false)
        let outcomes = await sweep.outcomes { (_, name) throws(Refusal) in
            guard name != "child" else { throw Refusal(description: "no") }
            return OperationReport(message: "done", token: token(name))
        }
        #expect(outcomes.map(\.credential) == sweep.steps.map(\.credential))
        #expect(outcomes.filter { $0.outcome == .failed }.map(\.message) == ["no"])
    }
}
