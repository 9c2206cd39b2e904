/// Finds the word somebody probably meant.
package enum Suggestion {
    /// - Returns: The candidate with the smallest edit distance, when it is near enough to be worth naming.
    package static func nearest(to word: String, in candidates: some Sequence<String>) -> String? {
        var best: (word: String, distance: Int)?
        for candidate in candidates.prefix(500) where abs(candidate.utf8.count - word.utf8.count) <= 24 {
            let distance = distance(Array(squeezed(word)), Array(squeezed(candidate)))
            guard distance <= max(1, min(word.count, candidate.count) / 3) else { continue }
            if distance < best?.distance ?? .max { best = (candidate, distance) }
        }
        return best?.word
    }

    /// `; did you mean "…"?`, or nothing.
    package static func hint(for word: String, in candidates: some Sequence<String>) -> String {
        nearest(to: word, in: candidates).map { "; did you mean \"\($0)\"?" } ?? ""
    }

    /// For a text that is no http or https URL: `; did you mean "https://"?` for `htps://`, or nothing.
    package static func scheme(of text: String) -> String {
        let word = String(text.prefix { $0.isASCII && $0.isLetter })
        let rest = text.dropFirst(word.count)
        let schemes = ["https", "http"]
        guard rest.hasPrefix(":/") || rest.hasPrefix("//"),
            !(rest.hasPrefix("://") && schemes.contains(word.lowercased()))
        else { return "" }
        return nearest(to: word, in: schemes).map { "; did you mean \"\($0)://\"?" } ?? ""
    }

    /// `clientId`, `client-id` and `client_id` are the same slip.
    private static func squeezed(_ word: String) -> String {
        String(word.lowercased().filter { $0 != "_" && $0 != "-" })
    }

    /// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours.
    private static func distance(_ a: [Character], _ b: [Character]) -> Int {
        guard a.count <= 64, b.count <= 64 else { return .max }
        var rows = [Array(0...b.count)]
        for i in 0..<a.count {
            var row = [i + 1]
            for j in 0..<b.count {
                var cost = min(rows[i][j + 1] + 1, row[j] + 1, rows[i][j] + (a[i] == b[j] ? 0 : 1))
                if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { cost = min(cost, rows[i - 1][j - 1] + 1) }
                row.append(cost)
            }
            rows.append(row)
        }
        return rows[a.count][b.count]
    }
}

/// Names from the standards and from other programs, and how the same is written here.
package enum StandardNames {
    /// How a client proves who it is (RFC 7591 section 2), for `client_auth`.
    package static let clientAuthentications: [String: String] = [
        "client_secret_basic": "basic", "client_secret_post": "body", "post": "body", "form": "body",
        "header": "basic", "tls_client_auth": "tls", "self_signed_tls_client_auth": "tls", "mtls": "tls",
    ]

    /// Keys of a route in other proxies, and what to write here.
    package static let routeKeys: [String: String] = [
        "path": "match: {path: /…}", "prefix": "match: {path: /…}", "location": "match: {path: /…}",
        "host": "match: {hosts: […]}", "hosts": "match: {hosts: […]}", "server_name": "match: {hosts: […]}",
        "url": "upstream: https://…", "target": "upstream: https://…", "backend": "upstream: https://…",
        "proxy_pass": "upstream: https://…", "service": "upstream: https://…",
        "timeout": "timeouts: {response: …}", "read_timeout": "timeouts: {idle: …}",
        "proxy_read_timeout": "timeouts: {response: …, idle: …}",
        "credential": "auth: NAME", "credentials": "auth: NAME", "authorization": "auth: NAME",
    ]

    /// Claims of an assertion (RFC 7523 section 3), which stand in `claims`.
    package static let claims: [String: String] = [
        "iss": "claims: {iss: …}", "issuer": "claims: {iss: …}", "sub": "claims: {sub: …}",
        "subject": "claims: {sub: …}",
        "aud": "claims: {aud: …}", "audience": "claims: {aud: …}",
    ]
}
