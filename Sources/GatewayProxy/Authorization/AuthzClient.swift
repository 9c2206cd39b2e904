import GatewayCore

/// An engine as the data plane answers it under one configuration.
final class AuthzClient: Sendable {
    /// Into the engines of its configuration.
    let number: Int
    let plan: EnginePlan
    let proof: EngineProof
    let mark: GenerationMark
    /// The beginning of `Vary`, which the fields of the route follow.
    let vary: String

    init(number: Int, _ plan: EnginePlan, authenticate: @escaping @Sendable ([UInt8]) -> [UInt8]) {
        self.number = number
        self.plan = plan
        proof = EngineProof(plan)
        vary = "Vary: " + OriginalRequest.varyingFields(of: plan.contract).joined(separator: ", ")
        mark = GenerationMark(engine: plan.name, authenticate: authenticate)
    }
}
