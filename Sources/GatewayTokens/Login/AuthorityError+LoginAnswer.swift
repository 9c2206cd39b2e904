package import GatewayHTTP

extension AuthorityError {
    /// What the authority wrote into the address that it sent the browser to (RFC 6749 section 4.1.2.1).
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
