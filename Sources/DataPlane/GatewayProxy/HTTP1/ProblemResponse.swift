import GatewayCore
import NIOCore

/// An answer that the gateway gives by itself, as the bytes of HTTP/1.
struct ProblemResponse {
    let answer: ProblemAnswer
    let closes: Bool

    func write(at time: UnixTime, into out: inout ByteBuffer) {
        var head = "HTTP/1.1 \(answer.status) \(answer.reasonPhrase ?? reasonPhrase)\r\nDate: \(time.httpDate)\r\n"
        for field in answer.fields { head += "\(field.name): \(field.value)\r\n" }
        head += closes ? "Connection: close\r\n\r\n" : "\r\n"
        out.writeString(head)
        out.writeBytes(answer.body)
    }

    /// The reason phrase of the status (RFC 9110 §15).
    private var reasonPhrase: String {
        switch answer.status {
        case 204: "No Content"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 407: "Proxy Authentication Required"
        case 408: "Request Timeout"
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 421: "Misdirected Request"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 504: "Gateway Timeout"
        case 505: "HTTP Version Not Supported"
        default: "Internal Server Error"
        }
    }
}
