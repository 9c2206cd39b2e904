package import GatewayHTTP

extension AuthorityError {
    /// What an answer without a usable token says.
    ///
    /// - Parameter secrets: What it must not repeat.
    /// - Returns: nil where a program answered: what it prints is not for others.
    package init?(_ reply: TokenReply, hiding secrets: [Secret]) {
        guard let status = reply.httpStatus else { return nil }
        let text = AuthorityText(hiding: secrets + Self.tokens(in: reply))
        self.init(status: status)
        if let json = reply.document {
            code = RefreshError.code(in: reply).flatMap { text.shown($0, limit: 64) }
            read(json, text)
        } else {
            readDocument(reply, text)
        }
    }

    /// What stands in the token members of the answer: its words may repeat that as well. Some authorities write there what is
    /// wrong, such as `"refresh_token":"is invalid"`; that is no secret.
    private static func tokens(in reply: TokenReply) -> [Secret] {
        ["access_token", "refresh_token", "id_token"].compactMap { reply.document?[$0]?.string }
            .filter { $0.utf8.count >= 8 && !$0.contains(where: \.isWhitespace) && !OAuthErrorCode.known.contains($0) }
            .map { Secret($0) }
    }

    // MARK: JSON

    private mutating func read(_ json: JSONValue, _ text: AuthorityText) {
        let nested = [json["error"], json["errors"]?.firstElement, json["fault"]].compactMap(\.self)
        uri = (json["error_uri"] ?? json["error_url"])?.string.flatMap { Self.address($0, text) }
        if let said = json["error_description"]?.string.flatMap({ text.shown($0) }) {
            (description, format) = (said, .oauth)
            return
        }
        let places = [json] + nested
        let messages = places.flatMap { place in Self.messageNames.map { place[$0]?.string } } + nested.map(\.string)
        let said = messages.lazy.compactMap { $0.flatMap { text.shown($0) } }.first { $0.lowercased() != code }
        guard let said else { return }
        (description, format) = (said, .json)
    }

    /// In the order in which they are looked for.
    private static let messageNames = [
        "error_description", "message", "Message", "error_message", "errorMessage", "description", "detail", "msg",
        "reason",
        "title", "faultstring",
    ]

    /// The page about an error; only such an address.
    static func address(_ address: String, _ text: AuthorityText) -> String? {
        guard ["https://", "http://"].contains(where: { address.lowercased().hasPrefix($0) }) else { return nil }
        return text.shown(address)
    }

    // MARK: Other documents

    static let documentLimit = 100
    /// More of a document is not read.
    static let readLimit = 16_384

    /// A text with a status of success may be a token.
    private mutating func readDocument(_ reply: TokenReply, _ text: AuthorityText) {
        let read = reply.body.prefix(Self.readLimit)
        // Half of a secret would not be recognized.
        let isCut = read.count < reply.body.count
        let document = String(decoding: read, as: UTF8.self)
        let isSuccess = (200..<300).contains(reply.status)
        if let (title, isWhole) = Self.title(of: document) {
            (description, format) = (text.shown(title, limit: Self.documentLimit, isCut: isCut && !isWhole), .html)
        } else if !isSuccess, Self.isText(document) {
            let isMarkup = document.contains("</")
            let said = isMarkup ? Self.withoutMarkup(document) : document
            (description, format) = (
                text.shown(said, limit: Self.documentLimit, isCut: isCut), isMarkup ? .html : .text
            )
        }
        if description == nil { format = nil }
    }

    private static func isText(_ document: String) -> Bool {
        let scalars = document.unicodeScalars
        return scalars.count { $0 == "\u{FFFD}" || $0 == "\u{0}" } * 20 <= scalars.count
    }

    private static func title(of document: String) -> (text: String, isWhole: Bool)? {
        guard let start = document.firstRange(of: "<title") ?? document.firstRange(of: "<TITLE"),
            let open = document[start.upperBound...].firstIndex(of: ">")
        else { return nil }
        let title = document[document.index(after: open)...].prefix { $0 != "<" }
        return (withoutMarkup(String(title)), title.endIndex < document.endIndex)
    }

    /// The text between the tags.
    private static func withoutMarkup(_ document: String) -> String {
        var (result, tag) = ("", "")
        // Of a style or a script nothing is text.
        var (isInTag, isHidden) = (false, false)
        for character in document {
            if character == "<" {
                (isInTag, tag) = (true, "")
            } else if isInTag, character == ">" {
                let name = tag.lowercased()
                isHidden = name.hasPrefix("style") || name.hasPrefix("script")
                isInTag = false
                result.append(" ")
            } else if isInTag {
                tag.append(character)
            } else if !isHidden {
                result.append(character)
            }
        }
        return entities.reduce(result) { $0.replacing($1.0, with: $1.1) }
    }

    private static let entities = [
        ("&nbsp;", " "), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&#x27;", "'"),
        ("&#x2F;", "/"),
        ("&amp;", "&"),
    ]
}

extension JSONValue {
    fileprivate var firstElement: JSONValue? { if case .array(let elements) = self { elements.first } else { nil } }
}
