package import GatewayHTTP
package import GatewayProxy

/// Explains requests, for the admin listener and the commands that speak to it.
package protocol ExplanationControl: Sendable {
    func explain(_ question: ExplanationQuestion) async -> Result<ExplanationAnswer, GatewayProblem>
}

package struct ExplanationQuestion: Hashable, Sendable {
    /// See ``ExplainInput``.
    package var input: String
    /// The client that the request is judged for; nil for the client that its token names.
    package var client: String?
    /// Who asks, where several do.
    package var asker: String?

    package init(input: String, client: String? = nil, asker: String? = nil) {
        self.input = input
        self.client = client
        self.asker = asker
    }
}

package struct ExplanationAnswer: Hashable, Sendable, Codable {
    /// Set for a request that was described.
    package var explanation: Explanation?
    /// Set for the id of requests that were sent.
    package var history: RequestHistory?

    package init(_ explanation: Explanation) { self.explanation = explanation }
    package init(_ history: RequestHistory) { self.history = history }

    /// The answer as people read it, with line breaks.
    package var text: String { explanation?.text() ?? history?.text() ?? "" }
}
