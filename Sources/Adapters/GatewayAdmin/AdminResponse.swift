import FoundationEssentials
import GatewayCore
import HTTPTypes
import Hummingbird
import NIOCore

/// Builds every answer of the admin listener, so that the protective fields stand on all of them.
enum AdminResponse {
    static func text(_ text: String, type: String, status: HTTPResponse.Status = .ok) -> Response {
        var fields = HTTPFields()
        fields[.contentType] = type
        fields[.cacheControl] = "no-store"
        fields[.xContentTypeOptions] = "nosniff"
        fields[.contentSecurityPolicy] =
            "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        return Response(status: status, headers: fields, body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
    }

    static func json(_ value: some Encodable, status: HTTPResponse.Status = .ok) -> Response {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(value) else {
            return problem(GatewayProblem(.internalError, "The answer could not be encoded."))
        }
        return text(String(decoding: data, as: UTF8.self) + "\n", type: "application/json", status: status)
    }

    /// RFC 9457. Fixed text, names from the configuration and allow-listed codes only.
    ///
    /// - Parameter realm: Whose token a 401 asks for.
    static func problem(_ problem: GatewayProblem, realm: String = "authgateway admin") -> Response {
        let body = ProblemBody(problem)
        var response = json(body, status: HTTPResponse.Status(code: problem.kind.status))
        response.headers[.contentType] = "application/problem+json"
        if let wait = problem.retryAfter { response.headers[.retryAfter] = String(wait.secondsRoundedUp) }
        if problem.kind == .clientAuthRequired {
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
        title = problem.kind.title
        status = problem.kind.status
        detail = problem.detail
        code = problem.kind.rawValue
        recovery = problem.kind.recovery.rawValue
        command = problem.command
    }
}
