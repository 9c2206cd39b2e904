package import GatewayHTTP
import GatewayProxy

/// Reads `.netrc`, as ftp and curl do: `machine`, `login`, `password`.
package enum NetrcFile {
    package static func services(_ text: String) throws(UnusableInput) -> ImportFindings {
        var words = words(text)[...]
        var findings = ImportFindings()
        while let word = words.popFirst() {
            switch word {
            case "machine":
                guard let host = words.popFirst() else { throw UnusableInput("\"machine\" has no name behind it.") }
                add(host, account(&words), to: &findings)
            case "default":
                _ = account(&words)
                findings.note("The entry \"default\" names no host. It was left out.")
            default: throw UnusableInput("This is not a .netrc file: a word stands where \"machine\" is expected.")
            }
            guard findings.services.count <= ImportFindings.maximumServices else {
                throw UnusableInput("The file has more than \(ImportFindings.maximumServices) machines.")
            }
        }
        return findings
    }

    private static func add(_ host: String, _ account: [String: String], to findings: inout ImportFindings) {
        let shown = ShownText.clean(host, limit: 80)
        guard let password = account["password"] else {
            return findings.note("\(shown) has no password. It was left out.")
        }
        guard let login = account["login"], !login.contains(":") else {
            return findings.note("\(shown) has no login, or one with a colon. It was left out.")
        }
        guard Origin(scheme: .https, authority: host) != nil else {
            return findings.note("\(shown) is not a host. It was left out.")
        }
        let basic = ImportedLogin.basic(username: .text(login), password: .clear(Secret(password)))
        findings.add(ImportedService(upstream: "https://\(host)", login: basic))
    }

    private static func account(_ words: inout ArraySlice<String>) -> [String: String] {
        var account: [String: String] = [:]
        while let key = words.first, ["login", "user", "password", "account"].contains(key) {
            words.removeFirst()
            account[key == "user" ? "login" : key] = words.popFirst() ?? ""
        }
        return account
    }

    /// A word may stand in double quotes. Macros, which end at an empty line, and comments are left out.
    private static func words(_ text: String) -> [String] {
        var words: [String] = []
        var isMacro = false
        for line in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
            if isMacro {
                isMacro = !line.allSatisfy(\.isWhitespace)
                continue
            }
            var rest = line[...]
            while let start = rest.firstIndex(where: { !$0.isWhitespace }) {
                rest = rest[start...]
                if rest.first == "#" { break }
                words.append(rest.first == "\"" ? quoted(&rest) : plain(&rest))
                guard words.last == "macdef" else { continue }
                words.removeLast()
                isMacro = true
                break
            }
        }
        return words
    }

    private static func plain(_ rest: inout Substring) -> String {
        let word = rest.prefix { !$0.isWhitespace }
        rest = rest[word.endIndex...]
        return String(word)
    }

    private static func quoted(_ rest: inout Substring) -> String {
        rest.removeFirst()
        var word = ""
        while let character = rest.popFirst(), character != "\"" {
            if character == "\\", let next = rest.popFirst() { word.append(next) } else { word.append(character) }
        }
        return word
    }
}
