import HTTPTypes
import Hummingbird

/// With `listeners.admin.require_token` only these are answered without the admin token: what shows nothing of the gateway,
/// and what asks for a token by itself. A path that is written in another way is not one of them.
enum AdminAccessRule {
    private static let pages: Set = [
        "/", "/explain", "/style.css", "/script.js", "/icon.svg", "/healthz", "/login", "/token",
    ]
    private static let forms: Set = ["/", "/explain", "/login", "/login/answer", "/token"]

    static func isOpen(_ request: Request) -> Bool {
        let path = request.uri.path
        switch request.method {
        case .get, .head: return pages.contains(path) || (path == "/readyz" && request.uri.query == nil)
        // Clients have tokens of their own.
        case .post: return forms.contains(path) || path.hasPrefix("/tokens/")
        default: return false
        }
    }
}
