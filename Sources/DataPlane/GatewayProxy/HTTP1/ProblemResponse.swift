import GatewayCore
import NIOCore

/// An answer that the gateway gives by itself, as bytes.
struct ProblemResponse {
    let problem: GatewayProblem
    let requestID: String
    var route: String?
    var credential: String?
    var strategy: String?
    /// ``ProxyStatus/member(nextHop:)``; nil sends none.
    var proxyStatus: String?
    /// HEAD is answered with the head alone.
    var omitsBody = false
    var prefersText = false
    var closes = true

    private var body: String {
        guard !prefersText else { return ProblemDocument.text(problem, requestID: requestID) }
        return ProblemDocument.json(
            problem,
            requestID: requestID,
            route: route,
            credential: credential,
            strategy: strategy
        )
    }

    func write(name: String, at time: UnixTime, into out: inout ByteBuffer) {
        let body = body
        let mediaType = prefersText ? "text/plain; charset=utf-8" : ProblemDocument.mediaType
        var head = "HTTP/1.1 \(problem.kind.status) \(problem.kind.reasonPhrase)\r\n"
        head += "Date: \(time.httpDate)\r\nContent-Type: \(mediaType)\r\nContent-Length: \(body.utf8.count)\r\n"
        head += "Cache-Control: no-store\r\n"
        if let proxyStatus { head += "Proxy-Status: \(proxyStatus); error=\(problem.proxyStatusError)\r\n" }
        switch problem.kind {
        case .clientAuthRequired:
            // RFC 6750 §3.1: no error code for a request that brought no token.
            let error = problem.cause?.code.map { ", error=\"\($0)\"" } ?? ""
            head += "WWW-Authenticate: Bearer realm=\"\(name)\"\(error)\r\n"
        case .proxyAuthRequired: head += "Proxy-Authenticate: Basic realm=\"\(name)\"\r\n"
        case .methodRefused: head += "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"
        default: break
        }
        if let retryAfter = problem.retryAfter { head += "Retry-After: \(retryAfter.secondsRoundedUp)\r\n" }
        head += closes ? "Connection: close\r\n\r\n" : "\r\n"
        out.writeString(head)
        if !omitsBody { out.writeString(body) }
    }
}

extension ProblemKind {
    /// The reason phrase of the status (RFC 9110 §15).
    fileprivate var reasonPhrase: String {
        switch status {
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
