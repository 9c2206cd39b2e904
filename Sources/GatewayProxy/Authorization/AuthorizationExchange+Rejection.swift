import GatewayCore
import Logging
import NIOCore

/// A second call: the upstream has rejected what the engine was handed.
extension AuthorizationExchange {
    /// What the engine says was rejected; nil for a first call, and for a value that the gateway did not hand out.
    func rejectedToken(from source: any CredentialSource) -> GenerationMark.Rejected? {
        let request = stream.request
        let bytes = request.bytes
        let span = bytes.readableBytesUInt8Span
        var value: Range<Int>?
        for index in request.decoder.head.section.fields.indices {
            let field = request.decoder.head.section.fields[index]
            guard case .other = field.kind, span.equalsLowercased(field.name, "x-gw-rejected-generation") else {
                continue
            }
            // A client's own value may stand beside the engine's.
            guard value == nil else { return nil }
            value = field.value
        }
        guard let value, !value.isEmpty else { return nil }
        return engine.mark.rejected(in: span, value, from: source)
    }

    /// Tells the source, if the engine may cause a renewal and the path is not one that rejects every token.
    ///
    /// - Returns: What the engine gets in its place.
    func reject(
        _ rejected: GenerationMark.Rejected,
        of source: any CredentialSource,
        for admitted: RequestAuthorizer.Admitted
    ) -> AuthzOutcome.Outcome {
        // Another request, or another gateway, has replaced it before.
        guard case .ready(let credential) = source.current(at: startedAt),
            engine.mark.names(credential, rejected, from: source)
        else { return .renewed }
        let generation = credential.generation
        if let obstacle = obstacle(generation, of: source, for: admitted) { return obstacle }
        let (state, engine) = (shared.state, engine.plan.name)
        switch state.spendRenewal(of: engine, source.name, generation: generation, at: startedAt) {
        case .granted: break
        case .refused(let isNews):
            if isNews {
                shared.logger.warning(
                    "An engine reports more rejected tokens than its budget of renewals allows",
                    metadata: ["gateway.engine": "\(engine)", "gateway.credential": "\(source.name)"]
                )
            }
            return .overBudget
        }
        source.rejected(generation: generation, by: credentialRequest(of: admitted))
        return .renewed
    }

    /// A path that rejects every token must not cause a renewal with each request.
    ///
    /// - Returns: What the engine is told where the rejection causes none.
    private func obstacle(
        _ generation: Int,
        of source: any CredentialSource,
        for admitted: RequestAuthorizer.Admitted
    ) -> AuthzOutcome.Outcome? {
        guard let rejections = source.rejections else { return source.isRenewable ? nil : .unchanged }
        let bytes = original.bytes
        let key = rejections.key(shared.routes[admitted.match.route].number, decoder.head, bytes.span)
        // Of a token that only a person can replace, the next request is told that it has ended.
        rejections.reported(key, generation: generation, at: startedAt)
        guard source.isRenewable else { return rejections.endsToken(key, generation: generation) ? nil : .unchanged }
        switch rejections.decision(for: key, generation: generation, client: admitted.client, at: startedAt) {
        case .counts: return nil
        case .suppressed: return .unchanged
        case .overBudget: return .overBudget
        }
    }
}
