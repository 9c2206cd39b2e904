import GatewayCore
import HTTPTypes
import Hummingbird

/// `POST /api/explain`: what would become of a request, for who holds the admin token.
///
/// The question may hold a client's token, and is never repeated. The answer holds no secret, so a page can show it.
struct AdminExplanations: Sendable {
    let control: any ExplanationControl

    func routes(on router: Router<AdminContext>) {
        router.post("/api/explain") { request, _ in await explain(request) }
    }

    private func explain(_ request: Request) async -> Response {
        let body = try? await request.body.collect(upTo: ExplainInput.limit + 4096)
        let value = body.flatMap { JSONValue(Array($0.readableBytesView)) }
        guard let input = value?["input"]?.string else {
            let example = #"{"input": "GET http://127.0.0.1:8080/box/2.0/users/me", "client": "ci"}"#
            return AdminResponse.problem(GatewayProblem(.requestRefused, "The body is to be JSON such as \(example)."))
        }
        switch await control.explain(ExplanationQuestion(input: input, client: value?["client"]?.string)) {
        case .success(let answer): return AdminResponse.json(answer)
        case .failure(let problem): return AdminResponse.problem(problem)
        }
    }
}
