/// What stands around the content of every page: head, style, script. Nothing comes from elsewhere.
enum PageShell {
    static func document(title: String, icon: Mark = .plain, _ body: HTML) -> HTML {
        """
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="referrer" content="same-origin">
        <meta name="color-scheme" content="light dark">
        <title>\(title)</title>
        <link rel="icon" href="/icon.svg?\(icon.rawValue)" id="icon">
        <link rel="stylesheet" href="/style.css">
        <script src="/script.js" defer></script>
        </head>
        <body>
        \(body)
        </body>
        </html>

        """
    }

    /// What visitors without the admin token see if they need it (`listeners.admin.require_token`). Shows nothing of the gateway.
    static func locked(wasRefused: Bool) -> HTML {
        let refusal: HTML = "<p class=\"bad\" role=\"alert\">This is not the admin token of the gateway.</p>"
        let note = wasRefused ? refusal : .empty
        return document(
            title: "AuthGateway",
            """
            <header><h1>AuthGateway</h1></header>
            <main id="locked">
            \(note)
            <form method="post" action="/" class="panel">
            <p><label for="page-token">Admin token (the file admin.token in the state directory)</label></p>
            <p><input id="page-token" type="password" name="token" autocomplete="off" required></p>
            <p><button class="primary">Show the page</button></p>
            </form>
            </main>
            """
        )
    }

    /// The dialogs that the script opens; nothing else does.
    static let dialogs: HTML = """
        <dialog id="ask-token" aria-labelledby="ask-token-title">
        <form method="dialog">
        <h2 id="ask-token-title">Admin token</h2>
        <p><label for="admin-token">Paste the token from the file admin.token in the state directory. This tab keeps it until it is
        closed.</label></p>
        <p><input id="admin-token" type="password" autocomplete="off" required></p>
        <p id="wrong-token" class="bad" role="alert" hidden>This is not the admin token of the gateway.</p>
        <p class="actions"><button value="" formnovalidate>Cancel</button><button value="ok" class="primary">Use it</button></p>
        </form>
        </dialog>
        <dialog id="confirm" aria-labelledby="confirm-title">
        <form method="dialog">
        <h2 id="confirm-title">Are you sure?</h2>
        <p id="confirm-text"></p>
        <p class="actions"><button value="">Cancel</button><button value="ok" class="danger" id="confirm-yes">Do it</button></p>
        </form>
        </dialog>
        <p id="notice" role="status" hidden></p>
        """

    /// The icon of the tab, in the colour of the state.
    static func icon(_ mark: Mark) -> String {
        let colour =
            switch mark {
            case .good: "#2b8a3e"
            case .warn: "#e8890c"
            case .bad: "#d6333a"
            case .plain, .accent: "#5c6270"
            }
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="\(colour)"/></svg>

            """
    }
}
