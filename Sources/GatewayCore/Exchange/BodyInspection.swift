/// The beginning of a body that is held back until there is enough of it to judge the response by.
package struct BodyInspection: Sendable {
    package private(set) var content: [UInt8] = []
    private var waiting = 0
    private let waitingLimit: Int
    private var isOver = false

    /// - Parameter waitingLimit: How much may wait with its framing. A body in tiny chunks is mostly framing, and would otherwise take
    ///   many times ``RejectionRule/bodyLimit``.
    package init(waitingLimit: Int) { self.waitingLimit = waitingLimit }

    /// Nothing that may follow changes the judgement.
    package var isEnough: Bool {
        isOver || content.count >= RejectionRule.bodyLimit || waiting >= waitingLimit
    }

    /// - Parameter part: Without framing.
    package mutating func receive(content part: some Collection<UInt8>) {
        content += part.prefix(RejectionRule.bodyLimit - content.count)
    }

    /// - Parameter count: Of what has arrived, content and framing together.
    package mutating func receive(bytes count: Int) { waiting += count }

    /// The body has ended.
    package mutating func end() { isOver = true }
}
