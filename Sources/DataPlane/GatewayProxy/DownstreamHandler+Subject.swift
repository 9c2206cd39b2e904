import GatewayCore
import NIOCore

/// Requests that say in a field whose token they go with.
extension DownstreamHandler {
    /// The source that a request chooses; the caller has found that the route leaves it the choice.
    func chosenSource(
        _ selection: any CredentialSelection,
        _ field: [UInt8],
        _ head: ByteBuffer
    ) -> Result<any CredentialSource, GatewayProblem> {
        let bytes = head.readableBytesUInt8Span
        var value: Range<Int>?
        for candidate in decoder.head.section.fields where bytes.equalsLowercased(candidate.name, field) {
            guard value == nil else { return .failure(selection.repeatedSubject) }
            value = candidate.value
        }
        guard let value, !value.isEmpty else { return .failure(selection.missingSubject) }
        // Longer ones are refused in any case, and need not be read to their end for that.
        return selection.source(for: bytes.string(value.prefix(SubjectSyntax.longest + 1)))
    }

    func refuseSubject(
        _ problem: GatewayProblem,
        _ head: ByteBuffer,
        id: RequestID,
        _ admitted: Admission.Admitted,
        _ route: ServedRoute
    ) {
        if problem.kind == .routeForbidden {
            let demand = CredentialDemand(route: route.plan.name, client: admitted.client, requestID: id.description)
            shared.observer.denied(demand, requestID: id.description, reason: problem.kind)
        }
        refuse(problem, head: head, id: id, route: route, client: admitted.client)
    }
}
