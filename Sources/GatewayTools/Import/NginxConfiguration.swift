package import GatewayHTTP
import GatewayProxy

/// Takes the logins out of an nginx configuration: `proxy_pass` with `proxy_set_header Authorization`, or a field with a key.
package enum NginxConfiguration {
    private struct Directive {
        let words: [String]
        let block: [Directive]
    }

    static let maximumDepth = 16

    package static func services(_ text: String) throws(UnusableInput) -> ImportFindings {
        var tokens = try tokens(text)[...]
        let directives = try block(&tokens, depth: 0)
        var findings = ImportFindings()
        visit(directives, headers: [], upstreams: upstreams(in: directives), &findings)
        guard findings.services.count <= ImportFindings.maximumServices else {
            throw UnusableInput("The file has more than \(ImportFindings.maximumServices) services.")
        }
        return findings
    }

    // MARK: Meaning

    /// Fields are inherited from the level above only where a level sets none of its own.
    private static func visit(
        _ block: [Directive],
        headers outer: [(name: String, value: String)],
        upstreams: [String: String],
        _ findings: inout ImportFindings
    ) {
        let own = block.filter { $0.words.first == "proxy_set_header" && $0.words.count == 3 }
        let headers = own.isEmpty ? outer : own.map { ($0.words[1], $0.words[2]) }
        for directive in block {
            if directive.words.first == "proxy_pass", let target = directive.words.dropFirst().first {
                add(target, headers, upstreams, &findings)
            }
            visit(directive.block, headers: headers, upstreams: upstreams, &findings)
        }
    }

    private static func add(
        _ target: String,
        _ headers: [(name: String, value: String)],
        _ upstreams: [String: String],
        _ findings: inout ImportFindings
    ) {
        let shown = ShownText.clean(target, limit: 80)
        guard !target.contains("$"), var url = try? RequestURL(target), url.scheme != nil else {
            return findings.note("proxy_pass \(shown) is not a fixed URL. It was left out.")
        }
        if let server = upstreams[url.authority] { url.authority = server }
        guard let origin = url.origin else {
            return findings.note("proxy_pass \(shown) names no host. It was left out.")
        }
        for (name, value) in headers {
            guard let login = ImportedLogin.reading(field: name, value: value) else { continue }
            guard !value.contains("$") else {
                findings.note("\(ShownText.clean(name, limit: 80)) of \(shown) is made of variables. It was left out.")
                continue
            }
            let path = url.path.hasSuffix("/") ? String(url.path.dropLast()) : url.path
            return findings.add(ImportedService(upstream: origin.description + path, login: login))
        }
        findings.note("\(shown) is passed on without a fixed credential. It was left out.")
    }

    /// The first server of each `upstream NAME`.
    private static func upstreams(in block: [Directive]) -> [String: String] {
        var found: [String: String] = [:]
        for directive in block {
            found.merge(upstreams(in: directive.block)) { first, _ in first }
            guard directive.words.first == "upstream", let name = directive.words.dropFirst().first,
                let server = directive.block.first(where: { $0.words.first == "server" })?.words.dropFirst().first
            else { continue }
            found[name] = server
        }
        return found
    }

    // MARK: Text

    private enum Token {
        case word(String)
        case end
        case open
        case close
    }

    private static func block(_ tokens: inout ArraySlice<Token>, depth: Int) throws(UnusableInput) -> [Directive] {
        guard depth < maximumDepth else { throw UnusableInput("Blocks are nested deeper than \(maximumDepth) levels.") }
        var directives: [Directive] = []
        var words: [String] = []
        while let token = tokens.popFirst() {
            switch token {
            case .word(let word): words.append(word)
            case .end:
                directives.append(Directive(words: words, block: []))
                words = []
            case .open:
                directives.append(Directive(words: words, block: try block(&tokens, depth: depth + 1)))
                words = []
            case .close:
                guard depth > 0 else { throw UnusableInput("There is a } without a {.") }
                return directives
            }
        }
        guard depth == 0 else { throw UnusableInput("A block is not closed.") }
        return directives
    }

    private static func tokens(_ text: String) throws(UnusableInput) -> [Token] {
        var tokens: [Token] = []
        var rest = Array(text)[...]
        while let first = rest.first {
            switch first {
            case _ where first.isWhitespace: rest.removeFirst()
            case "#": rest = rest.drop { !$0.isNewline }
            case ";":
                rest.removeFirst()
                tokens.append(.end)
            case "{":
                rest.removeFirst()
                tokens.append(.open)
            case "}":
                rest.removeFirst()
                tokens.append(.close)
            case "\"", "'": tokens.append(.word(try quoted(&rest)))
            default: tokens.append(.word(plain(&rest)))
            }
        }
        return tokens
    }

    private static func quoted(_ rest: inout ArraySlice<Character>) throws(UnusableInput) -> String {
        let mark = rest.removeFirst()
        var word = ""
        while let character = rest.popFirst() {
            if character == mark { return word }
            if character == "\\", let next = rest.popFirst() {
                word += next == mark || next == "\\" ? String(next) : "\\\(next)"
            } else {
                word.append(character)
            }
        }
        throw UnusableInput("A quotation mark is never closed.")
    }

    /// `${name}` is a part of a word.
    private static func plain(_ rest: inout ArraySlice<Character>) -> String {
        var word = ""
        while let character = rest.first, !character.isWhitespace, character != ";" {
            if (character == "{" && word.last != "$") || (character == "}" && !word.contains("${")) { break }
            word.append(character)
            rest.removeFirst()
        }
        return word
    }
}
