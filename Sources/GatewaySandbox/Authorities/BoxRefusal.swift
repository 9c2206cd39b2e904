import HTTPTypes
import Hummingbird

/// How Box says no, field by field and byte by byte.
enum BoxRefusal {
    static let invalidToken = challenge(
        .unauthorized,
        error: "invalid_token",
        "The access token provided is invalid."
    )
    static let malformed = challenge(.unauthorized, error: "invalid_request", "The access token was not found.")
    static let insufficientScope = challenge(
        .forbidden,
        error: "insufficient_scope",
        "The request requires higher privileges than provided by the access token."
    )

    static func response(_ status: Int, retryAfter: String?) -> Response {
        var response: Response
        switch status {
        case 401: response = invalidToken
        case 403: response = insufficientScope
        case 429: response = json(429, code: "rate_limit_exceeded", "Request rate limit exceeded")
        case 503: response = json(503, code: "unavailable", "Service unavailable")
        default: response = json(status, code: "internal_server_error", "The sandbox was told to fail")
        }
        response.headers[.lowerCaseRetryAfter] = retryAfter ?? (status == 429 ? "1" : nil)
        return response
    }

    static func json(_ status: Int, code: String, _ message: String) -> Response {
        .json(
            [
                "type": "error", "status": .integer(status), "code": .string(code), "message": .string(message),
                "help_url": "http://developers.box.com/docs/#errors", "request_id": "sandbox",
            ],
            status: HTTPResponse.Status(code: status)
        )
    }

    private static func challenge(_ status: HTTPResponse.Status, error: String, _ description: String) -> Response {
        let value = "Bearer realm=\"Service\", error=\"\(error)\", error_description=\"\(description)\""
        return .empty(status, [.wwwAuthenticate: value])
    }
}
