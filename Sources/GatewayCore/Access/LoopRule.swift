/// Refuses requests that have passed this gateway before: their `Via` names it (RFC 9110 section 7.6.3).
struct LoopRule: Sendable {
    /// How this gateway calls itself in `Via`.
    let viaName: String

    func refusal(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> GatewayProblem? {
        guard head.present.contains(.via) else { return nil }
        for index in head.section.fields.indices where head.section.fields[index].kind == .via {
            // `1.1 name (comment), ...`: another gateway's name may begin as ours does.
            let words = bytes.string(head.section.fields[index].value).split { " \t,".contains($0) }
            guard !words.contains(where: { $0 == viaName }) else {
                return GatewayProblem(.loop, "The request has already passed this gateway.")
            }
        }
        return nil
    }
}
