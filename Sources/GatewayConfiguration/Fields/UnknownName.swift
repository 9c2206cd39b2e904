import GatewayHTTP

/// Tells a misspelt name from one that is known. A filter with it would find nothing, and look like a log without such events.
package enum UnknownName {
    /// More are not listed.
    static let listed = 20

    /// - Parameters:
    ///   - kind: What it should be the name of.
    ///   - place: Where a known name would be.
    /// - Returns: What to say; nil when the name is known.
    package static func message(_ name: String, kind: String, in place: String, known: [String]) -> String? {
        guard !known.contains(name) else { return nil }
        let start = "there is no \(kind) \"\(shown(name))\" in \(place)"
        let hint = Suggestion.hint(for: name, in: known)
        guard hint.isEmpty, !known.isEmpty else { return start + hint }
        let names = Set(known).sorted()
        let rest = names.count > listed ? " and \(names.count - listed) more" : ""
        return "\(start); it knows \(names.prefix(listed).map(shown).joined(separator: ", "))\(rest)"
    }

    /// The name that a credential of one subject is made from: `box` of `box[user:42]`.
    package static func base(ofCredential name: String) -> String {
        guard name.hasSuffix("]"), let bracket = name.firstIndex(of: "[") else { return name }
        return String(name[..<bracket])
    }

    private static func shown(_ name: String) -> String {
        let harmless = name.unicodeScalars.prefix(128).map { $0.isHarmless ? $0 : "?" }
        return String(String.UnicodeScalarView(harmless))
    }
}

/// Finds the command that was probably meant.
package enum CommandSuggestion {
    /// How other programs call them.
    private static let synonyms = [
        "validate": "check", "lint": "check", "verify": "check", "test": "check", "start": "run", "serve": "run",
        "up": "run", "info": "status", "ps": "status", "list": "routes", "logs": "audit tail", "log": "audit tail",
        "events": "audit query", "signin": "login", "signout": "logout", "credentials": "token list",
        "explain": "config explain", "schema": "config schema", "refresh": "token refresh", "rotate": "key rotate",
        "tail": "audit tail", "diff": "plan",
    ]

    /// The whole command to type; nil when every word is known, or nothing is near.
    ///
    /// - Parameters:
    ///   - arguments: Without the name of the program.
    ///   - paths: The words of each command behind the name of the program.
    package static func suggestion(for arguments: [String], of program: String, among paths: [[String]]) -> String? {
        var path: [String] = []
        var isCorrected = false
        for word in arguments {
            let next = paths.filter { $0.count == path.count + 1 && $0.starts(with: path) }.compactMap(\.last)
            guard !next.isEmpty, !word.hasPrefix("-"), word != "help" else { break }
            if next.contains(word) {
                path.append(word)
                continue
            }
            let synonym = path.isEmpty ? synonyms[word.lowercased()] : nil
            guard let meant = synonym ?? Suggestion.nearest(to: word, in: next) else { break }
            // The words behind it may be those of the command that was meant.
            path += meant.split(separator: " ").map(String.init)
            isCorrected = true
        }
        return isCorrected ? ([program] + path).joined(separator: " ") : nil
    }
}
