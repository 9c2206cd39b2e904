import FoundationEssentials
import GatewayHTTP
import HTTPTypes
import Hummingbird
import NIOCore

/// Builds every answer of the admin listener, so that the protective fields stand on all of them.
enum AdminResponse {
    static func text(_ text: String, type: String, status: HTTPResponse.Status = .ok) -> Response {
        Response(
            status: status,
            headers: fields(type, policy: "form-action 'none'"),
            body: ResponseBody(byteBuffer: ByteBuffer(string: text))
        )
    }

    static func plain(_ text: String, status: HTTPResponse.Status = .ok) -> Response {
        self.text(text, type: "text/plain; charset=utf-8", status: status)
    }

    /// A page with our script, which may ask this listener only. Scripts and styles within the page do nothing.
    static func page(_ html: HTML, status: HTTPResponse.Status = .ok) -> Response {
        var response = text(html.text, type: "text/html; charset=utf-8", status: status)
        response.headers[.contentSecurityPolicy] = policy(
            "script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'"
        )
        return response
    }

    /// Server-sent events.
    static func stream(
        _ write: @escaping @Sendable (inout any ResponseBodyWriter) async throws -> Void
    ) -> Response {
        Response(
            status: .ok,
            headers: fields("text/event-stream; charset=utf-8", policy: "form-action 'none'"),
            body: ResponseBody(write)
        )
    }

    private static func fields(_ type: String, policy rules: String) -> HTTPFields {
        var fields = HTTPFields()
        fields[.contentType] = type
        fields[.cacheControl] = "no-store"
        fields[.xContentTypeOptions] = "nosniff"
        fields[.contentSecurityPolicy] = policy(rules)
        return fields
    }

    /// - Parameter rules: Beside those of every answer.
    static func policy(_ rules: String) -> String {
        "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; \(rules)"
    }

    static func json(_ value: some Encodable, status: HTTPResponse.Status = .ok) -> Response {
        guard let text = encoded(value) else {
            return problem(GatewayProblem(.internalError, "The answer could not be encoded."))
        }
        return self.text(text + "\n", type: "application/json", status: status)
    }

    /// JSON on one line; nil for what JSON cannot say.
    static func encoded(_ value: some Encodable) -> String? {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(value)).map { String(decoding: $0, as: UTF8.self) }
    }

    static var noSuchPage: Response {
        let detail =
            "This is the admin listener, and it has no such page. Send requests for a route to a proxy listener."
        return problem(GatewayProblem(.noRoute, detail))
    }

    /// RFC 9457. Fixed text, names from the configuration and allow-listed codes only.
    ///
    /// - Parameter realm: Whose token a 401 asks for.
    static func problem(_ problem: GatewayProblem, realm: String = "authgateway admin") -> Response {
        let body = ProblemBody(problem)
        var response = json(body, status: HTTPResponse.Status(code: problem.kind.status))
        response.headers[.contentType] = "application/problem+json"
        if let wait = problem.retryAfter { response.headers[.retryAfter] = String(wait.secondsRoundedUp) }
        if problem.kind == .clientAuthRequired || problem.kind == .adminAuthRequired {
            // RFC 6750 §3.1: no error code for a request that brought no token.
            let error = problem.cause?.code.map { ", error=\"\($0)\"" } ?? ""
            response.headers[.wwwAuthenticate] = "Bearer realm=\"\(realm)\"\(error)"
        }
        return response
    }
}

private struct ProblemBody: Encodable {
    let type: String
    let title: String
    let status: Int
    let detail: String
    let code: String
    let recovery: String
    let command: String?

    init(_ problem: GatewayProblem) {
        type = "urn:authgateway:problem:\(problem.kind.rawValue)"
        title = problem.title
        status = problem.kind.status
        detail = problem.detail
        code = problem.kind.rawValue
        recovery = problem.recovery.rawValue
        command = problem.command
    }
}
