import HTTPTypes
import Hummingbird

/// How a resource server that follows RFC 6750 §3 says no.
enum BearerRefusal {
    static let noCredential = Response.json(
        ["error": "unauthorized"],
        status: .unauthorized,
        fields: [.wwwAuthenticate: "Bearer realm=\"sandbox\""]
    )
    static let invalidToken = challenge(
        .unauthorized,
        "invalid_token",
        "The access token expired, was revoked or is unknown"
    )
    static let wrongPassword = Response.json(
        ["error": "unauthorized"],
        status: .unauthorized,
        fields: [.wwwAuthenticate: "Basic realm=\"sandbox\", charset=\"UTF-8\""]
    )

    static func response(_ status: Int, retryAfter: String?) -> Response {
        var response: Response
        switch status {
        case 401: response = invalidToken
        case 403: response = challenge(.forbidden, "insufficient_scope", "The token does not allow this")
        default:
            response = .json(["error": "the sandbox was told to fail"], status: HTTPResponse.Status(code: status))
        }
        response.headers[.retryAfter] = retryAfter
        return response
    }

    private static func challenge(_ status: HTTPResponse.Status, _ error: String, _ description: String) -> Response {
        let value = "Bearer realm=\"sandbox\", error=\"\(error)\", error_description=\"\(description)\""
        return .json(["error": .string(error)], status: status, fields: [.wwwAuthenticate: value])
    }
}
