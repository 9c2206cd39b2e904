import GatewayCore
import HTTPTypes
import Hummingbird

/// The pages on which a person does something with one token. No script: a form, and what came of it.
enum TokenPage {
    /// Asks for the admin token each time, so that a page left open is no key to the gateway.
    static func form(of token: TokenStatus, message: String? = nil) -> Response {
        let note = message.map { "<p class=\"bad\">\(HTML.escape($0))</p>" } ?? ""
        let buttons = operations(of: token).map { name, words in
            "<p><button name=\"operation\" value=\"\(name)\">\(name)</button> \(HTML.escape(words))</p>"
        }
        return LoginPage.page(
            "Token: \(token.credential)",
            """
            \(note)
            <p>State: <span class="code">\(HTML.escape(token.state.rawValue))</span></p>
            <form method="post" action="/token">
            <input type="hidden" name="credential" value="\(HTML.escape(token.credential))">
            <p><label>Admin token (the file admin.token of the state directory)<br>
            <input type="password" name="token" autocomplete="off" required autofocus></label></p>
            \(buttons.joined(separator: "\n"))
            </form>
            <p class="soft"><a href="/">Back</a>. Or on the command line: authgateway token --help</p>
            """,
            status: message == nil ? .ok : .unauthorized
        )
    }

    static func outcome(_ result: Result<OperationReport, GatewayProblem>) -> Response {
        switch result {
        case .success(let report): page("Done", report.message, status: .ok)
        case .failure(let problem):
            page("That did not work", problem.detail, status: HTTPResponse.Status(code: problem.kind.status))
        }
    }

    private static func page(_ title: String, _ words: String, status: HTTPResponse.Status) -> Response {
        let body = "<p>\(HTML.escape(words))</p>\n<p><a href=\"/\">Back</a></p>"
        return LoginPage.page(title, body, status: status)
    }

    /// The value of a button with what it does; also what may be asked for.
    private static func operations(of token: TokenStatus) -> [(name: String, words: String)] {
        let lock =
            token.state == .locked
            ? ("unlock", "Use the credential again.")
            : ("lock", "Stop using the credential, over restarts too.")
        return [
            ("refresh", "Renew the token now."),
            ("revoke", "Have the authority forget the token, then forget it here."),
            ("clear", "Forget the token here; the authority is not told."),
            lock,
        ]
    }
}
