package import GatewayHTTP

/// What an authorization server said when it gave no token, for operators alone: printable, bounded, and without secrets.
///
/// A client is told only a code of ``OAuthErrorCode``.
package struct AuthorityError: Hashable, Sendable, Codable {
    /// What ``description`` was read from.
    package enum Format: String, Sendable, Codable {
        /// `error_description` of an OAuth error (RFC 6749 section 5.2).
        case oauth
        /// A message in other JSON.
        case json
        case text
        case html
    }

    /// The status of the HTTP response; nil when a program answered.
    package var status: Int?
    /// For example `invalid_grant`.
    package var code: String?
    /// At most 256 characters.
    package var description: String?
    /// `error_uri`: the authorization server's page about the error.
    package var uri: String?
    package var format: Format?

    package init(
        status: Int? = nil,
        code: String? = nil,
        description: String? = nil,
        uri: String? = nil,
        format: Format? = nil
    ) {
        self.status = status
        self.code = code
        self.description = description
        self.uri = uri
        self.format = format
    }
}

extension AuthorityError {
    /// The error in one line, for example `401 invalid_client: the secret has expired (https://id.example.com/errors)`.
    package var text: String {
        let head = [status.map(String.init), code].compactMap(\.self).joined(separator: " ")
        let words = [head.isEmpty ? nil : head, description].compactMap(\.self).joined(separator: ": ")
        return [words.isEmpty ? nil : words, uri.map { "(\($0))" }].compactMap(\.self).joined(separator: " ")
    }
}

extension AuthorityError {
    /// For the details of an audit event and the fields of a log line. The status has a place of its own there.
    ///
    /// - Parameter clockSkew: See ``ClockSkew``; 0 is left out.
    package func members(clockSkew: Int? = nil) -> [String: String] {
        let skew = clockSkew.flatMap { $0 == 0 ? nil : String($0) }
        let members = [
            ("authority_code", code), ("authority_description", description), ("authority_uri", uri),
            ("authority_format", format?.rawValue), ("clock_skew_seconds", skew),
        ]
        return members.reduce(into: [:]) { $0[$1.0] = $1.1 }
    }
}

/// What the answer to a token request says.
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

    /// What stands in the token members of the answer: its words may repeat that as well. Some authorization servers write there what is
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

    /// Members that may hold a message, in the order in which they are looked for.
    private static let messageNames = [
        "error_description", "message", "Message", "error_message", "errorMessage", "description", "detail", "msg",
        "reason",
        "title", "faultstring",
    ]

    /// The page about an error; only such an address.
    private static func address(_ address: String, _ text: AuthorityText) -> String? {
        guard ["https://", "http://"].contains(where: { address.lowercased().hasPrefix($0) }) else { return nil }
        return text.shown(address)
    }

    // MARK: Other documents

    static let documentLimit = 100
    /// How much of a document is read.
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
        // The content of `style` and `script` elements is left out.
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

extension AuthorityError {
    /// What the authorization server wrote into the address that it sent the browser to (RFC 6749 section 4.1.2.1).
    ///
    /// - Parameter secrets: What it must not repeat.
    /// - Returns: nil when it names no error.
    package init?(_ answer: LoginAnswer, hiding secrets: [Secret]) {
        let address =
            switch answer {
            case .redirect(let text), .pasted(let text): text
            }
        let query = address.prefix { $0 != "#" }.drop { $0 != "?" }.dropFirst()
        guard let values = try? LoginParameters(query: query), let error = values["error"] else { return nil }
        let text = AuthorityText(hiding: secrets)
        self.init(
            code: text.shown(error, limit: 64),
            description: values["error_description"].flatMap { text.shown($0) },
            uri: values["error_uri"].flatMap { Self.address($0, text) },
            format: .oauth
        )
    }
}

/// Error codes of authorization servers that may be repeated in logs, the audit table and problem documents.
///
/// RFC 6749 §4.1.2.1 and §5.2, RFC 6750 §3.1, RFC 8628 §3.5, RFC 8693 §2.2.2, OpenID Connect Core §3.1.2.6, and those that
/// some servers add. Anything else is `other`, because it could contain a secret.
package enum OAuthErrorCode {
    package static let known: Set<String> = [
        "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
        "invalid_scope", "access_denied", "unsupported_response_type", "server_error", "temporarily_unavailable",
        "invalid_token", "insufficient_scope", "invalid_target", "authorization_pending", "slow_down", "expired_token",
        "unauthorized_device", "exceeded_device_limits", "missing_device_id", "unsupported_device_pinning_runtime",
        "account_deactivated", "interaction_required", "login_required", "account_selection_required",
        "consent_required", "redirect_uri_mismatch", "redirect_uri_missing", "mfa_required", "bad_refresh_token",
        "bad_verification_code", "token_expired", "token_revoked", "token_inactive", "refresh_token_expired",
        "refresh_token_revoked", "invalid_refresh_token", "expired_refresh_token", "revoked_token", "session_expired",
        "user_disabled", "user_not_found", "incorrect_client_credentials", "invalid_client_id", "bad_client_secret",
    ]

    package static func allowListed(_ code: String?) -> String? {
        guard let code else { return nil }
        return known.contains(code) ? code : "other"
    }
}
