import GatewayHTTP

/// Reads a curl command line as the request that curl would send.
struct CurlCommand {
    private var method: String?
    private var isHead = false
    private var isGet = false
    private var isJSON = false
    private var hasForm = false
    private var keepsDotSegments = false
    private var urls: [String] = []
    private var fields: [DescribedRequest.Field] = []
    /// Fields that curl sends by itself, unless a field of the same name is given.
    private var standard: [DescribedRequest.Field] = [.init("User-Agent", "curl"), .init("Accept", "*/*")]
    /// Names of fields with nothing behind the colon, in lower case: curl does not send them.
    private var removed: Set<String> = []
    private var data: [DescribedRequest.Part] = []
    private var upload: DescribedRequest.Part?
    private var host: String?
    private var target: String?
    private var isHTTP10 = false
    private var proxy: String?
    private var socket: String?
    private var unknown: [String] = []
    private var remarks: [String] = []

    /// - Parameter words: Those behind `curl`.
    static func request(_ words: some Sequence<String>) throws(UnusableInput) -> DescribedRequest {
        var command = CurlCommand()
        try command.read(Array(words)[...])
        return try command.request()
    }

    // MARK: Words

    private mutating func read(_ words: ArraySlice<String>) throws(UnusableInput) {
        var rest = words
        var takesOptions = true
        while let word = rest.popFirst() {
            if word == "--next" || word == "-:" {
                remarks.append("Only the request before \(word) is explained.")
                return
            }
            if takesOptions, word == "--" {
                takesOptions = false
            } else if takesOptions, word.hasPrefix("--") {
                try readLong(word, &rest)
            } else if takesOptions, word.hasPrefix("-"), word.count > 1 {
                try readShort(word, &rest)
            } else {
                urls.append(word)
            }
        }
    }

    private mutating func readLong(_ word: String, _ rest: inout ArraySlice<String>) throws(UnusableInput) {
        guard let option = CurlOption(word) else { return readUnknown(word, &rest) }
        guard option.hasArgument else { return apply(option, "") }
        guard let argument = rest.popFirst() else {
            throw UnusableInput("\(ShownText.clean(word)) lacks its value.")
        }
        apply(option, argument)
    }

    /// Several letters may stand behind one hyphen, and the value of the last one may follow at once.
    private mutating func readShort(_ word: String, _ rest: inout ArraySlice<String>) throws(UnusableInput) {
        var letters = word.dropFirst()
        while let letter = letters.popFirst() {
            guard let option = CurlOption("-\(letter)") else { return readUnknown("-\(letter)", &rest) }
            guard option.hasArgument else {
                apply(option, "")
                continue
            }
            guard let argument = letters.isEmpty ? rest.popFirst() : String(letters) else {
                throw UnusableInput("-\(letter) lacks its value.")
            }
            return apply(option, argument)
        }
    }

    /// Whether it takes a value is not known. What cannot be a URL is taken for one.
    private mutating func readUnknown(_ option: String, _ rest: inout ArraySlice<String>) {
        unknown.append(option)
        guard let next = rest.first, !next.hasPrefix("-"), !next.contains("/"), !next.contains(".") else { return }
        let isLast = !rest.dropFirst().contains { !$0.hasPrefix("-") } && urls.isEmpty
        if !isLast { rest.removeFirst() }
    }

    // MARK: Options

    private mutating func apply(_ option: CurlOption, _ argument: String) {
        switch option {
        case .method: method = argument
        case .head: isHead = true
        case .field: addField(argument)
        case .data(let form): addData(argument, form)
        case .get: isGet = true
        case .json:
            isJSON = true
            addData(argument, .binary)
        case .upload:
            upload = argument == "-" ? .file("-", dropsLineBreaks: false) : .file(argument, dropsLineBreaks: false)
        case .form: hasForm = true
        case .user: standard.append(.init("Authorization", "Basic \(Base64.encode(argument.utf8))"))
        case .bearer: standard.append(.init("Authorization", "Bearer \(argument)"))
        case .userAgent: setStandard("User-Agent", argument)
        case .referer: standard.append(.init("Referer", argument))
        case .cookie: addCookie(argument)
        case .range: standard.append(.init("Range", "bytes=\(argument)"))
        case .compressed: standard.append(.init("Accept-Encoding", "deflate, gzip, br, zstd"))
        case .url: urls.append(argument)
        case .target: target = argument
        case .asIs: keepsDotSegments = true
        case .http10: isHTTP10 = true
        case .proxy: setProxy(argument)
        case .proxyUser: standard.append(.init("Proxy-Authorization", "Basic \(Base64.encode(argument.utf8))"))
        case .proxyField: addField(argument)
        case .socket: socket = argument
        case .connection: remarks.append("--resolve and --connect-to were ignored.")
        case .other: break
        }
    }

    /// `Name: value`, `Name;` for an empty one, `Name:` for none.
    private mutating func addField(_ text: String) {
        guard !text.hasPrefix("@") else {
            return remarks.append("The fields in the file \(shown(text)) were not read.")
        }
        guard text.unicodeScalars.allSatisfy({ $0.value >= 0x20 || $0.value == 0x09 }) else {
            return remarks.append("A field with a control character in it was left out.")
        }
        guard let colon = text.firstIndex(of: ":") else {
            guard text.hasSuffix(";") else { return remarks.append("A field without a colon was left out.") }
            return fields.append(.init(String(text.dropLast()), ""))
        }
        let name = String(text[..<colon])
        let value = text[text.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
        if name.lowercased() == "host", !value.isEmpty {
            host = String(value)
        } else if value.isEmpty {
            removed.insert(name.lowercased())
        } else {
            fields.append(.init(name, String(value)))
        }
    }

    private mutating func addCookie(_ text: String) {
        guard text.contains("=") else { return remarks.append("The cookies in the file \(shown(text)) were not read.") }
        standard.append(.init("Cookie", text))
    }

    private mutating func addData(_ text: String, _ form: CurlOption.DataForm) {
        if !data.isEmpty, !isJSON { data.append(.text("&")) }
        switch form {
        case .text where text.hasPrefix("@"): data.append(.file(String(text.dropFirst()), dropsLineBreaks: true))
        case .binary where text.hasPrefix("@"): data.append(.file(String(text.dropFirst()), dropsLineBreaks: false))
        case .text, .raw, .binary: data.append(.text(text))
        case .urlEncoded: data.append(encoded(text))
        }
    }

    /// `CONTENT`, `=CONTENT` or `NAME=CONTENT`.
    private mutating func encoded(_ text: String) -> DescribedRequest.Part {
        if let at = text.firstIndex(of: "@"), !text[..<at].contains("=") {
            remarks.append("A file of --data-urlencode is taken as it is.")
            return .file(String(text[text.index(after: at)...]), dropsLineBreaks: false)
        }
        guard let equals = text.firstIndex(of: "=") else { return .text(PercentEncoding.encode(text)) }
        let name = text[..<equals]
        let value = PercentEncoding.encode(String(text[text.index(after: equals)...]))
        return .text(name.isEmpty ? value : "\(name)=\(value)")
    }

    private mutating func setStandard(_ name: String, _ value: String) {
        guard let index = standard.firstIndex(where: { $0.name == name }) else { return }
        if value.isEmpty { standard.remove(at: index) } else { standard[index] = .init(name, value) }
    }

    private mutating func setProxy(_ text: String) {
        guard let url = try? RequestURL(text.contains("://") ? text : "http://\(text)") else {
            return remarks.append("The proxy \(shown(text)) is not understood.")
        }
        if let user = url.userInfo {
            let decoded = PercentEncoding.decode(user) ?? user
            standard.append(.init("Proxy-Authorization", "Basic \(Base64.encode(decoded.utf8))"))
        }
        proxy = url.authority
    }

    private func shown(_ text: String) -> String { ShownText.clean(text, limit: 80) }

    // MARK: Request

    private func request() throws(UnusableInput) -> DescribedRequest {
        guard let first = urls.first else { throw UnusableInput("The curl command has no URL.") }
        var url = try RequestURL(first)
        url.scheme = url.scheme ?? .http
        guard !url.authority.isEmpty else { throw UnusableInput("The URL of the curl command names no host.") }
        if !keepsDotSegments { url.path = Self.withoutDotSegments(url.path) }
        let content = isGet ? [] : upload.map { [$0] } ?? data
        if isGet { url.query = query(url.query) }
        var request = DescribedRequest(method: usedMethod, url: url)
        request.content = content
        request.fields = allFields(url)
        request.host = host
        request.target = target
        request.isHTTP10 = isHTTP10
        request.proxy = proxy
        request.socket = socket
        request.remarks = remarks + more
        return request
    }

    private var usedMethod: String {
        if let method { return method }
        if isHead { return "HEAD" }
        if upload != nil { return "PUT" }
        return (data.isEmpty && !hasForm) || isGet ? "GET" : "POST"
    }

    private var more: [String] {
        var more: [String] = []
        if !unknown.isEmpty { more.append("Not understood: \(unknown.map(shown).joined(separator: ", ")).") }
        if urls.count > 1 { more.append("Only the first of \(urls.count) URLs is explained.") }
        if hasForm { more.append("The form (-F) is treated as an empty body.") }
        return more
    }

    /// `-G` moves the data into the query.
    private func query(_ query: String) -> String {
        let text = data.map { part in
            guard case .text(let text) = part else { return "" }
            return text
        }.joined()
        guard !text.isEmpty else { return query }
        return query.count > 1 ? "\(query)&\(text)" : "?\(text)"
    }

    private func allFields(_ url: RequestURL) -> [DescribedRequest.Field] {
        var implied = standard
        if let user = url.userInfo, !implied.contains(where: { $0.name == "Authorization" }) {
            let decoded = PercentEncoding.decode(user) ?? user
            implied.insert(.init("Authorization", "Basic \(Base64.encode(decoded.utf8))"), at: 0)
        }
        if isJSON {
            implied.removeAll { $0.name == "Accept" }
            implied += [.init("Content-Type", "application/json"), .init("Accept", "application/json")]
        } else if !data.isEmpty, !isGet {
            implied.append(.init("Content-Type", "application/x-www-form-urlencoded"))
        } else if hasForm {
            implied.append(.init("Content-Type", "multipart/form-data"))
        }
        let given = Set(fields.map { $0.name.lowercased() }).union(removed)
        return implied.filter { !given.contains($0.name.lowercased()) } + fields
    }

    /// Removes dot segments as curl and browsers do (RFC 3986 section 5.2.4).
    private static func withoutDotSegments(_ path: String) -> String {
        var kept: [Substring] = []
        let segments = path.split(separator: "/", omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            switch segment {
            case ".": if isLast { kept.append("") }
            case "..":
                if kept.count > 1 { kept.removeLast() }
                if isLast { kept.append("") }
            default: kept.append(segment)
            }
        }
        return kept.joined(separator: "/")
    }
}

/// The options of curl that change the request, and those that are known not to.
private enum CurlOption {
    case method
    case head
    case field
    case data(DataForm)
    case get
    case json
    case upload
    case form
    case user
    case bearer
    case userAgent
    case referer
    case cookie
    case range
    case compressed
    case url
    case target
    case asIs
    case http10
    case proxy
    case proxyUser
    case proxyField
    case socket
    /// Changes nothing that the gateway sees.
    case other(hasArgument: Bool)
    /// Says where curl connects to, which the explanation decides by itself.
    case connection

    enum DataForm {
        /// `@FILE` is read without its line breaks.
        case text
        case raw
        /// `@FILE` is read as it is.
        case binary
        case urlEncoded
    }

    var hasArgument: Bool {
        switch self {
        case .head, .get, .compressed, .asIs, .http10: false
        case .other(let hasArgument): hasArgument
        default: true
        }
    }

    /// - Parameter name: With its hyphens.
    init?(_ name: String) {
        if let found = Self.changing[name] {
            self = found
        } else if Self.flags.contains(name) || name.hasPrefix("--no-") {
            self = .other(hasArgument: false)
        } else if Self.options.contains(name) {
            self = .other(hasArgument: true)
        } else {
            return nil
        }
    }

    private static let changing: [String: CurlOption] = [
        "-X": .method, "--request": .method, "-I": .head, "--head": .head, "-H": .field, "--header": .field,
        "-d": .data(.text), "--data": .data(.text), "--data-ascii": .data(.text), "--data-raw": .data(.raw),
        "--data-binary": .data(.binary), "--data-urlencode": .data(.urlEncoded), "-G": .get, "--get": .get,
        "--json": .json, "-T": .upload, "--upload-file": .upload, "-F": .form, "--form": .form, "--form-string": .form,
        "-u": .user, "--user": .user, "--oauth2-bearer": .bearer, "-A": .userAgent, "--user-agent": .userAgent,
        "-e": .referer, "--referer": .referer, "-b": .cookie, "--cookie": .cookie, "-r": .range, "--range": .range,
        "--compressed": .compressed, "--url": .url, "--request-target": .target, "--path-as-is": .asIs,
        "-0": .http10, "--http1.0": .http10, "-x": .proxy, "--proxy": .proxy, "--proxy1.0": .proxy,
        "-U": .proxyUser, "--proxy-user": .proxyUser, "--proxy-header": .proxyField, "--unix-socket": .socket,
        "--resolve": .connection, "--connect-to": .connection,
    ]

    private static let flags: Set<String> = [
        "-s", "--silent", "-S", "--show-error", "-v", "--verbose", "-i", "--include", "-L", "--location",
        "--location-trusted", "-k", "--insecure", "-f", "--fail", "--fail-with-body", "-g", "--globoff", "-N",
        "-O", "--remote-name", "-J", "--remote-header-name", "-q", "--disable", "-#", "--progress-bar", "-4", "--ipv4",
        "-6", "--ipv6", "--http1.1", "--http2", "--http2-prior-knowledge", "--http3", "--raw", "--tcp-nodelay",
        "--tlsv1.2", "--tlsv1.3", "-Z", "--parallel", "--fail-early", "-j", "--junk-session-cookies", "--ssl-reqd",
        "--retry-all-errors", "--retry-connrefused", "-a", "--append", "--basic", "--proxy-basic", "--styled-output",
        "--create-dirs", "--tcp-fastopen", "--proxy-insecure", "--http0.9", "-R", "--remote-time", "--post301",
        "--post302", "--post303",
    ]

    private static let options: Set<String> = [
        "-o", "--output", "--output-dir", "-w", "--write-out", "-m", "--max-time", "--connect-timeout", "--retry",
        "--retry-delay", "--retry-max-time", "-D", "--dump-header", "-c", "--cookie-jar", "--cacert", "--capath", "-E",
        "--cert", "--cert-type", "--key", "--key-type", "--pass", "--ciphers", "--interface", "--limit-rate",
        "--max-redirs", "--max-filesize", "--noproxy", "--keepalive-time", "--stderr", "--trace", "--trace-ascii",
        "-y", "--speed-time", "-Y", "--speed-limit", "--dns-servers", "--local-port", "--pinnedpubkey", "--tls-max",
        "--curves", "--expect100-timeout", "--rate", "--proxy-cacert", "--happy-eyeballs-timeout-ms",
    ]
}
