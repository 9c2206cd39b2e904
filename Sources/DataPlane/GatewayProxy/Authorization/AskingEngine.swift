import GatewayCore

/// An engine as the data plane answers it under one configuration.
final class AskingEngine: Sendable {
    /// Into the engines of its configuration.
    let number: Int
    let plan: EnginePlan
    let proof: EngineProof
    let mark: GenerationMark

    init(number: Int, _ plan: EnginePlan, authenticate: @escaping @Sendable ([UInt8]) -> [UInt8]) {
        self.number = number
        self.plan = plan
        proof = EngineProof(plan)
        mark = GenerationMark(engine: plan.name, authenticate: authenticate)
    }
}
