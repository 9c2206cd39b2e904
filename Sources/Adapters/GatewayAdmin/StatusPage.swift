import GatewayCore

/// The status page: routes, credentials with their state and countdown, and the newest events. No script, no external
/// resource, every text escaped; it renews itself every five seconds.
struct StatusPage: Sendable {
    let version: String
    let readiness: Readiness
    let routes: [RouteStatus]
    let tokens: [TokenStatus]
    let expirations: [Expiration]
    let events: [AdminEvent]

    var html: String {
        """
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="referrer" content="same-origin">
        <meta http-equiv="refresh" content="5">
        <title>AuthGateway</title>
        <link rel="stylesheet" href="/style.css">
        </head>
        <body>
        <header><h1>AuthGateway</h1>\(readinessMark)</header>
        \(reasons)
        <h2>Credentials</h2>
        \(credentialTable)
        \(endingSection)
        <h2>Routes</h2>
        \(routeTable)
        \(eventSection)
        <footer>AuthGateway \(HTML.escape(version)). The same as JSON:
        <a href="/api/tokens">/api/tokens</a>, <a href="/api/endings">/api/endings</a>, <a href="/api/routes">/api/routes</a>,
        <a href="/readyz?verbose">/readyz?verbose</a>, <a href="/metrics">/metrics</a>.</footer>
        </body>
        </html>

        """
    }

    private var readinessMark: String {
        readiness.isReady
            ? "<span class=\"state good\">ready</span>"
            : "<span class=\"state bad\">not ready</span>"
    }

    private var reasons: String {
        readiness.reasons.map { "<p class=\"soft\">\(HTML.escape($0))</p>" }.joined(separator: "\n")
    }

    private var credentialTable: String {
        guard !tokens.isEmpty else { return "<p class=\"soft\">No credential has a lifecycle.</p>" }
        let rows = tokens.map { token in
            [
                HTML.cell(token.credential, class: "code"),
                HTML.cell(token.strategy),
                "<td><span class=\"state \(Self.mark(token))\">\(HTML.escape(token.state.rawValue))</span></td>",
                HTML.cell(token.generation == 0 ? "" : String(token.generation)),
                HTML.cell(Self.countdown(token.remainingSeconds)),
                HTML.cell([token.action, token.lastError].compactMap(\.self).joined(separator: " "), class: "wide"),
                "<td class=\"links\"><a href=\"/token?credential=\(PercentEncoding.encode(token.credential))\">Change</a>"
                    + " \(loginLink(token))</td>",
            ].joined()
        }
        return HTML.table(
            ["Credential", "Strategy", "State", "Generation", "Expires in", "What to do", ""],
            rows: rows
        )
    }

    private func loginLink(_ token: TokenStatus) -> String {
        guard token.canLogIn else { return "" }
        return "<a href=\"/login?credential=\(PercentEncoding.encode(token.credential))\">Log in</a>"
    }

    private var endingSection: String {
        guard !expirations.isEmpty else { return "" }
        let rows = expirations.map { expiration in
            [
                "<td><span class=\"state \(expiration.isSoon ? "warn" : "good")\">"
                    + "\(Self.countdown(expiration.remainingSeconds))</span></td>",
                HTML.cell(expiration.kind.rawValue),
                HTML.cell(expiration.of, class: "code"),
                HTML.cell(String(expiration.endsAt.prefix(16).map { $0 == "T" ? " " : $0 }) + " UTC"),
                HTML.cell(expiration.isSoon ? expiration.action : "", class: "wide"),
            ].joined()
        }
        return "<h2>Ends</h2>\n" + HTML.table(["In", "What", "Of", "At", "What to do"], rows: rows)
    }

    private var routeTable: String {
        let rows = routes.map { route in
            [
                HTML.cell(route.name, class: "code"),
                HTML.cell(route.path, class: "code"),
                HTML.cell(route.upstream, class: "code"),
                HTML.cell(route.credential ?? "none", class: "code"),
                HTML.cell(route.needs ?? "", class: "wide"),
            ].joined()
        }
        return HTML.table(["Route", "Path", "Upstream", "Credential", "Needs"], rows: rows)
    }

    private var eventSection: String {
        guard !events.isEmpty else { return "" }
        let rows = events.map { event in
            [
                HTML.cell(event.at, class: "code"),
                "<td><span class=\"\(event.isFailure ? "bad" : "")\">\(HTML.escape(event.event))</span></td>",
                HTML.cell(event.credential ?? "", class: "code"),
                HTML.cell(event.generation.map(String.init) ?? ""),
                HTML.cell(event.note ?? "", class: "wide"),
            ].joined()
        }
        return "<h2>Recent events</h2>\n"
            + HTML.table(["At", "Event", "Credential", "Generation", "Note"], rows: rows)
    }

    private static func mark(_ token: TokenStatus) -> String {
        if token.needsPerson { return "bad" }
        return token.state == .valid || token.state == .renewing ? "good" : "warn"
    }

    /// `12 days`, `1 h 02 min`, `4 min 10 s`, `12 s`.
    static func countdown(_ seconds: Int?) -> String {
        guard let seconds else { return "" }
        guard seconds > 0 else { return "expired" }
        if seconds >= 48 * 3600 { return "\(seconds / 86_400) days" }
        let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60)
        if hours > 0 { return "\(hours) h \(minutes) min" }
        return minutes > 0 ? "\(minutes) min \(rest) s" : "\(rest) s"
    }
}

/// The few pieces of HTML that the page is made of.
enum HTML {
    static func escape(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    static func cell(_ text: String, class name: String? = nil) -> String {
        "<td\(name.map { " class=\"\($0)\"" } ?? "")>\(escape(text))</td>"
    }

    static func table(_ titles: [String], rows: [String]) -> String {
        let head = titles.map { "<th>\(escape($0))</th>" }.joined()
        let body = rows.map { "<tr>\($0)</tr>" }.joined(separator: "\n")
        return "<div class=\"scroll\"><table>\n<tr>\(head)</tr>\n\(body)\n</table></div>"
    }
}
