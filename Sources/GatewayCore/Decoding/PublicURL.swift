/// Reads `public_url` of a listener: where clients see it.
enum PublicURL {
    static func decode(_ fields: ConfigFields) -> GatewayURL? {
        fields.explain(meanings)
        guard let text = fields.string("public_url") else { return nil }
        do throws(UpstreamURL.Refusal) {
            guard !text.contains("@") else { throw UpstreamURL.Refusal("must not contain a user name or password") }
            let url = try UpstreamURL(text)
            return GatewayURL(origin: url.origin, path: Array(url.path.utf8))
        } catch {
            fields.error("public_url", error.message)
            return nil
        }
    }

    private static let meanings: [String: KeyMeaning] = [
        "public_url": KeyMeaning(
            "Where clients see this listener, behind a proxy that ends their TLS. Links of upstreams are rewritten to it.",
            default: "the scheme of the listener and the Host of the request",
            type: "a URL",
            example: "https://gateway.example.com"
        )
    ]
}
