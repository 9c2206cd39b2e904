import GatewayCore

/// What was asked to be explained.
struct Question: Hashable, Sendable {
    let text: String
    /// nil as long as the admin token is missing.
    let answer: Result<String, GatewayProblem>?
}

/// Takes a URL, a curl line or a request ID; the answer stands below it and has an address of its own.
///
/// The answer is for who holds the admin token: it tells who may do what. The question is sent in the body of a request, because a
/// curl line may hold a token.
struct ExplainSection {
    let question: Question?

    var html: HTML {
        """
        <section id="explain" aria-labelledby="explain-title">
        <h2 id="explain-title" class="spoken">Explain a request</h2>
        <form method="post" action="/explain" class="explain" role="search">
        <label for="question" class="spoken">A URL, a curl line or a request ID</label>
        <input id="question" name="q" value="\(question?.text)" maxlength="8000" autocomplete="off" spellcheck="false" \
        placeholder="A URL, a curl line or a request ID" required>
        \(tokenField)<button>Explain</button>
        </form>
        <div id="answer" aria-live="polite"\(isAsked ? " data-asked" : HTML.empty)>\(question?.answer.map(Self.words))</div>
        </section>
        """
    }

    private var isAsked: Bool { question.map { $0.answer == nil } ?? false }

    /// The script asks for the token in a dialog.
    private var tokenField: HTML {
        """
        <label for="explain-token" class="spoken plain-only">Admin token</label>
        <input id="explain-token" class="plain-only token" type="password" name="token" autocomplete="off" \
        placeholder="Admin token">
        """
    }

    private static func words(_ answer: Result<String, GatewayProblem>) -> HTML {
        switch answer {
        case .success(let text): "<pre class=\"panel\" tabindex=\"0\" aria-label=\"Explanation\">\(text)</pre>"
        case .failure(let problem):
            "<p class=\"panel\"><strong>\(problem.kind.title).</strong> \(problem.detail)</p>"
        }
    }
}
