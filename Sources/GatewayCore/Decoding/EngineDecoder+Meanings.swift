extension EngineDecoder {
    static let listenersMeaning: [String: KeyMeaning] = [
        "authz": KeyMeaning(
            "Where other proxies ask which header fields a request needs (docs/authz.md). Whole tokens leave here.",
            default: "[]",
            example: "- address: 127.0.0.1:8191\n  engine: edge\n  contract: nginx\n  token: {file: ./edge.token}"
        )
    ]

    static let meanings: [String: KeyMeaning] = [
        "engine": KeyMeaning(
            "The name of the one proxy that asks here. Routes name it in authz.",
            type: "a name",
            example: "edge"
        ),
        "contract": KeyMeaning(
            "How the engine says which request it asks about. nginx: X-Original-Method, X-Original-URI, X-Original-Host and"
                + " X-Original-Proto. forward_auth (Caddy, Traefik, HAProxy): X-Forwarded-Method, -Uri, -Host and -Proto. envoy:"
                + " by its own request line and Host.",
            example: "nginx"
        ),
        "token": KeyMeaning(
            "What the engine sends in X-Gw-Engine-Token to prove itself. At least 16 bytes. A list of two, while the engine changes"
                + " from one to the other.",
            example: "{file: ./edge.token}"
        ),
        "certificates": KeyMeaning(
            "Names of the engine's certificate (subjectAltName), of which it must have one: host names and URIs, or all URIs below"
                + " one. For addresses with tls.client_ca.",
            type: "list of names",
            example: "[edge.example.com, spiffe://example.org/edges/*]"
        ),
        "path_prefix": KeyMeaning(
            "Stands before the path of each request of an engine with contract: envoy (path_prefix of ext_authz).",
            default: "none",
            example: "/authz"
        ),
        "cache": KeyMeaning(
            "How long the engine may keep an answer, and no longer than the token is valid. A token that was withdrawn"
                + " stays in use for as long.",
            default: "answers are not kept",
            example: "10s"
        ),
    ]
}
