import GatewayHTTP

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
    ///   - paths: Of all commands, the words behind the name of the program.
    package static func suggestion(for arguments: [String], of program: String, among paths: [[String]]) -> String? {
        var path: [String] = []
        for word in arguments {
            let next = paths.filter { $0.count == path.count + 1 && $0.starts(with: path) }.compactMap(\.last)
            guard !next.isEmpty, !word.hasPrefix("-"), word != "help" else { return nil }
            guard next.contains(word) else {
                let synonym = path.isEmpty ? synonyms[word.lowercased()] : nil
                guard let meant = synonym ?? Suggestion.nearest(to: word, in: next) else { return nil }
                return ([program] + path + [meant]).joined(separator: " ")
            }
            path.append(word)
        }
        return nil
    }
}
