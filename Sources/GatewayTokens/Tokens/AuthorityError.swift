/// What an authority said when it gave no token, for operators alone: printable, bounded, and without secrets.
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

    /// Of the HTTP response; nil when a program answered.
    package var status: Int?
    /// For example `invalid_grant`.
    package var code: String?
    /// At most 256 characters.
    package var description: String?
    /// `error_uri`: the authority's page about the error.
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
    /// In one line, for example `401 invalid_client: the secret has expired (https://id.example.com/errors)`.
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
