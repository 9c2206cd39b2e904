import HTTPTypes
import Hummingbird

extension HTTPField.Name {
    static func sandbox(_ name: String) -> HTTPField.Name { HTTPField.Name(name) ?? .server }

    static let boxRequestID = sandbox("BOX-REQUEST-ID")
    static let digest = sandbox("Digest")
    static let asUser = sandbox("As-User")
    static let accessToken = sandbox("X-Access-Token")
    static let sessionToken = sandbox("X-Session-Token")
    static let apiKey = sandbox("X-Api-Key")
    /// The token of the wrapping API.
    static let session = sandbox("X-Session")
    /// As Box writes it: a reader that looks for `Retry-After` byte by byte does not find it.
    static let lowerCaseRetryAfter = sandbox("retry-after")
}

extension Response {
    static func json(_ value: JSON, status: HTTPResponse.Status = .ok, fields: HTTPFields = [:]) -> Response {
        text(value.text + "\n", type: "application/json", status: status, fields: fields)
    }

    static func text(
        _ text: String,
        type: String = "text/plain; charset=utf-8",
        status: HTTPResponse.Status = .ok,
        fields: HTTPFields = [:]
    ) -> Response {
        var fields = fields
        fields[.contentType] = type
        return Response(status: status, headers: fields, body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
    }

    static func empty(_ status: HTTPResponse.Status, _ fields: HTTPFields = [:]) -> Response {
        var fields = fields
        fields[.contentLength] = "0"
        return Response(status: status, headers: fields)
    }

    /// RFC 6749 §5.2.
    static func oauthError(
        _ code: String,
        _ description: String,
        status: HTTPResponse.Status = .badRequest,
        fields: HTTPFields = [:]
    ) -> Response {
        json(["error": .string(code), "error_description": .string(description)], status: status, fields: fields)
    }
}
