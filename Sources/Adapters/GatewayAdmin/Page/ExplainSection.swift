import GatewayCore

/// What was asked to be explained, with the answer.
struct Explanation: Hashable, Sendable {
    let question: String
    let answer: Result<String, GatewayProblem>
}

/// Takes a URL, a curl line or a request ID; the answer stands below it and has an address of its own.
struct ExplainSection {
    let explanation: Explanation?

    var html: HTML {
        """
        <section id="explain" aria-labelledby="explain-title">
        <h2 id="explain-title" class="spoken">Explain a request</h2>
        <form method="get" action="/explain" class="explain" role="search">
        <label for="question" class="spoken">A URL, a curl line or a request ID</label>
        <input id="question" name="q" value="\(explanation?.question)" maxlength="8000" autocomplete="off" \
        spellcheck="false" placeholder="A URL, a curl line or a request ID">
        <button>Explain</button>
        </form>
        <div id="answer" aria-live="polite">\(explanation.map(answer))</div>
        </section>
        """
    }

    private func answer(_ explanation: Explanation) -> HTML {
        switch explanation.answer {
        case .success(let text): "<pre class=\"panel\" tabindex=\"0\" aria-label=\"Explanation\">\(text)</pre>"
        case .failure(let problem):
            "<p class=\"panel\"><strong>\(problem.kind.title)</strong> \(problem.detail)</p>"
        }
    }
}
