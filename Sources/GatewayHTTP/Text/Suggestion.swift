/// Finds the word somebody probably meant.
package enum Suggestion {
    /// - Returns: The candidate with the smallest edit distance, when it is near enough to be worth naming.
    package static func nearest(to word: String, in candidates: some Sequence<String>) -> String? {
        let meant = SqueezedWord(word)
        var rows = DistanceRows()
        var best: (word: String, distance: Int)?
        for candidate in candidates.prefix(500) where abs(candidate.utf8.count - word.utf8.count) <= 24 {
            let other = SqueezedWord(candidate)
            let near = max(1, min(meant.length, other.length) / 3)
            let limit = min(near, best.map { $0.distance - 1 } ?? near)
            guard let distance = meant.distance(to: other, atMost: limit, &rows) else { continue }
            best = (candidate, distance)
            if distance == 0 { break }
        }
        return best?.word
    }

    /// `; did you mean "…"?`, or nothing.
    package static func hint(for word: String, in candidates: some Sequence<String>) -> String {
        hint(nearest(to: word, in: candidates))
    }

    /// - Parameter word: What ``nearest(to:in:)`` has found.
    package static func hint(_ word: String?) -> String { word.map { "; did you mean \"\($0)\"?" } ?? "" }

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
}

/// A word as far as slips go: `clientId`, `client-id` and `client_id` are the same.
///
/// A file may have thousands of misspelt names, each of which is compared with hundreds. So ASCII is compared by its bytes.
private struct SqueezedWord {
    /// Characters of the word as it was written.
    let length: Int
    private let text: String
    /// nil for a word that is not ASCII.
    private let bytes: [UInt8]?

    init(_ word: String) {
        text = word
        // CR and LF are one character.
        guard word.utf8.allSatisfy({ $0 < 0x80 && $0 != 0x0D }) else {
            (length, bytes) = (word.count, nil)
            return
        }
        length = word.utf8.count
        bytes = word.utf8.compactMap { byte in
            switch byte {
            case UInt8(ascii: "_"), UInt8(ascii: "-"): nil
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte | 0x20
            default: byte
            }
        }
    }

    private var characters: [Character] { text.lowercased().filter { $0 != "_" && $0 != "-" } }

    func distance(to other: SqueezedWord, atMost limit: Int, _ rows: inout DistanceRows) -> Int? {
        if let bytes, let others = other.bytes { return rows.distance(bytes, others, atMost: limit) }
        return rows.distance(characters, other.characters, atMost: limit)
    }
}

/// The optimal string alignment of two words: insertions, deletions, substitutions and swaps of neighbours.
private struct DistanceRows {
    private static let longest = 64
    private static let width = longest + 1

    /// The last three rows of the table, each in the place of the one three rows above it.
    private var cells = Array(repeating: 0, count: 3 * width)

    /// - Returns: nil when the words are farther apart than the limit, or too long.
    mutating func distance<Letter: Equatable>(_ a: [Letter], _ b: [Letter], atMost limit: Int) -> Int? {
        guard limit >= 0, a.count <= Self.longest, b.count <= Self.longest, abs(a.count - b.count) <= limit else {
            return nil
        }
        let tooFar = limit + 1
        for column in 0...b.count { cells[column] = column }
        var nearest = 0
        for row in stride(from: 1, through: a.count, by: 1) {
            let here = row % 3 * Self.width
            let above = (row - 1) % 3 * Self.width
            let twoAbove = (row + 1) % 3 * Self.width
            // A cell that is farther from the diagonal than the limit is too far.
            let first = max(1, row - limit)
            let last = min(b.count, row + limit)
            cells[here + first - 1] = first == 1 ? row : tooFar
            if last < b.count { cells[here + last + 1] = tooFar }
            let nearestAbove = nearest
            nearest = cells[here + first - 1]
            for column in stride(from: first, through: last, by: 1) {
                let isSame = a[row - 1] == b[column - 1]
                var cost = min(cells[above + column], cells[here + column - 1]) + 1
                cost = min(cost, cells[above + column - 1] + (isSame ? 0 : 1))
                if row > 1, column > 1, a[row - 1] == b[column - 2], a[row - 2] == b[column - 1] {
                    cost = min(cost, cells[twoAbove + column - 2] + 1)
                }
                cells[here + column] = cost
                nearest = min(nearest, cost)
            }
            // A swap comes from two rows above.
            if nearest > limit, nearestAbove >= limit { return nil }
        }
        let distance = cells[a.count % 3 * Self.width + b.count]
        return distance <= limit ? distance : nil
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
