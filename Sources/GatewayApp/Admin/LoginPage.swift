import GatewayHTTP
import GatewayTokens
import HTTPTypes
import Hummingbird

/// The few pages that a browser sees of a login. No script, nothing from elsewhere, nothing kept in a cache.
enum LoginPage {
    /// What the browser is shown where the login ended.
    static func outcome(_ progress: LoginProgress) -> Response {
        guard progress != .waiting else { return answered }
        guard let token = progress.token else {
            let words = progress.problem ?? "The login ended without a reason."
            let title = progress.isOver ? "The login failed" : "Not the answer to this login"
            return page(title, "<p>\(words)</p>", status: .badRequest)
        }
        let words = "The gateway now has a token for \(token.credential). You can close this window."
        return page("Logged in", "<p>\(words)</p>")
    }

    /// Shown when the same answer comes a second time, for example from a reload while the code is exchanged.
    static var answered: Response {
        page(
            "The answer has already arrived",
            """
            <p>An answer can be used once. The result is shown in the window that brought it first, and where the login \
            was begun.</p>
            """,
            status: .gone
        )
    }

    /// Asks for the admin token, so that another program of this machine cannot log the gateway in as somebody else.
    static func begin(credential: String, message: String? = nil) -> Response {
        let note = message.map { "<p class=\"bad\">\($0)</p>" as HTML }
        return page(
            "Log in: \(credential)",
            """
            \(note)
            <form method="post" action="/login">
            <input type="hidden" name="credential" value="\(credential)">
            <p><label>Admin token (the file admin.token in the state directory)<br>
            <input type="password" name="token" autocomplete="off" required autofocus></label></p>
            <p><button>Log in</button></p>
            </form>
            <p class="soft">Or on the command line: \(GatewayCommand.line("login", credential))</p>
            """,
            status: message == nil ? .ok : .unauthorized
        )
    }

    /// Sends the browser to the authorization server. Without a redirect listener, the page asks for the address of the last page.
    static func invite(_ invitation: LoginInvitation) -> Response {
        let link: HTML = "<a rel=\"noreferrer\" href=\"\(invitation.page)\""
        guard invitation.isManual else {
            let body: HTML = "<p>\(link)>Continue to the authorization server</a></p>"
            return page("Log in: \(invitation.credential)", body, leadingTo: invitation.page)
        }
        return page(
            "Log in: \(invitation.credential)",
            """
            <p>1. \(link) target="_blank">Log in at the authorization server</a>; it opens in a new window.</p>
            <p>2. Copy the whole address of the last page in that window. It begins with
            <span class="code">\(invitation.redirect)</span>.</p>
            <form method="post" action="/login/answer">
            <input type="hidden" name="id" value="\(invitation.id)">
            <p><label>3. Paste it here<br><input type="password" name="answer" autocomplete="off" required></label></p>
            <p><button>Finish</button></p>
            </form>
            """
        )
    }

    static func redirect(to page: String) -> Response {
        var response = AdminResponse.text("", type: "text/plain; charset=utf-8", status: .found)
        response.headers[.location] = page
        response.headers[referrerPolicy] = "no-referrer"
        return response
    }

    static func refusal(_ status: HTTPResponse.Status) -> Response {
        page("Nothing here", "<p>This address only receives the result of a login.</p>", status: status)
    }

    static func page(
        _ title: String,
        _ body: HTML,
        status: HTTPResponse.Status = .ok,
        leadingTo next: String? = nil
    ) -> Response {
        let refresh = next.map { "<meta http-equiv=\"refresh\" content=\"0; url=\($0)\">" as HTML }
        let html: HTML =
            """
            <!doctype html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            \(refresh)
            <title>\(title)</title>
            <link rel="stylesheet" href="/style.css">
            </head>
            <body class="narrow"><main><h1>\(title)</h1>
            \(body)
            </main></body>
            </html>

            """
        var response = AdminResponse.text(html.text, type: "text/html; charset=utf-8", status: status)
        response.headers[.contentSecurityPolicy] = AdminResponse.policy("form-action 'self'")
        // The next page must not learn the address of this one, which may hold a code.
        response.headers[referrerPolicy] = "same-origin"
        response.headers[.connection] = "close"
        return response
    }

    private static let referrerPolicy = HTTPField.Name("Referrer-Policy") ?? .server
}

/// `/login`: the pages on which a person logs in. The command line uses the operations of ``AdminAPI``.
enum LoginForms {
    static let endpoints = [
        AdminEndpoint(.get, "/login") { options, request, _ in
            guard options.logins != nil else { return AdminResponse.noSuchPage }
            return LoginPage.begin(credential: request.uri.queryParameters["credential"].map(String.init) ?? "")
        },
        AdminEndpoint(.post, "/login") { options, request, context in
            guard let logins = options.logins else { return AdminResponse.noSuchPage }
            return try await begin(logins, options, request, context)
        },
        AdminEndpoint(.post, "/login/answer") { options, request, _ in
            guard let logins = options.logins else { return AdminResponse.noSuchPage }
            guard let form = try await AdminForm.read(request) else { return LoginPage.outcome(unreadable) }
            return LoginPage.outcome(await logins.answer(form["id"] ?? "", with: form["answer"] ?? "") ?? unknown)
        },
    ]

    private static let unknown = LoginProgress(
        isOver: true,
        problem: "This login no longer exists; start a new one."
    )

    private static let unreadable = LoginProgress(isOver: true, problem: "The form is not valid.")

    private static func begin(
        _ logins: any LoginControl,
        _ options: AdminOptions,
        _ request: Request,
        _ context: AdminContext
    ) async throws -> Response {
        guard let form = try await AdminForm.read(request) else { return LoginPage.outcome(unreadable) }
        let credential = form["credential"] ?? ""
        if let refusal = await options.authorization.refusal(typed: form["token"] ?? "", context, request) {
            return LoginPage.begin(credential: credential, message: refusal)
        }
        switch await logins.begin(LoginOrder(credential: credential)) {
        case .success(let invitation): return LoginPage.invite(invitation)
        case .failure(let problem):
            return LoginPage.outcome(LoginProgress(isOver: true, problem: problem.detail))
        }
    }
}
