import Foundation
import GatewayCore

/// What concerns the gateway as a whole.
extension AdminClient {
    /// A refused reload is an answer, too.
    func reload() async throws(CommandFailure) -> ReloadReport {
        let (status, body) = try await sendAuthorized("POST", "/api/reload")
        guard status == 200 || status == 409 else { throw refusal(body) }
        return try decode(body)
    }

    func rotateKey() async throws(CommandFailure) -> KeyRotationReport {
        let (status, body) = try await sendAuthorized("POST", "/api/key/rotate")
        guard status == 200 else { throw refusal(body) }
        return try decode(body)
    }

    func noteBackup(includesKeys: Bool) async throws(CommandFailure) {
        let body = Array(#"{"keys": \#(includesKeys)}"#.utf8)
        let (status, answer) = try await sendAuthorized("POST", "/api/state/backup", body: body)
        guard status == 200 else { throw refusal(answer) }
    }

    func rotateAuthority() async throws(CommandFailure) -> AuthorityRotationReport {
        let (status, body) = try await sendAuthorized("POST", "/api/ca/rotate")
        guard status == 200 else { throw refusal(body) }
        return try decode(body)
    }

    func servedPlan() async throws(CommandFailure) -> ServedPlan {
        let (status, body) = try await sendAuthorized("GET", "/api/plan")
        guard status == 200 else { throw refusal(body) }
        return try decode(body)
    }

    /// The question may hold a client's token: it goes to the gateway that holds the state directory, or nowhere.
    func explain(_ question: ExplanationQuestion) async throws(CommandFailure) -> ExplanationAnswer {
        guard let body = try? JSONEncoder().encode(question) else {
            throw CommandFailure(.usage, "the input cannot be written as JSON")
        }
        let (status, answer) = try await sendAuthorized("POST", "/api/explain", body: Array(body))
        guard status == 200 else { throw refusal(answer) }
        return try decode(answer)
    }
}
