extension RouteDecoder {
    static let names: [String: KeyMeaning] = [
        KeyMeaning.anyName: KeyMeaning(
            "One route. Its path is /NAME and its host NAME.localhost unless match says otherwise.",
            example: "upstream: https://api.example.com\nauth: none"
        )
    ]

    static let meanings: [String: KeyMeaning] = [
        "upstream": KeyMeaning(
            "Where the requests go: scheme, host, and optionally port and path.",
            type: "a URL",
            example: "https://api.example.com/v2"
        ),
        "auth": KeyMeaning(
            "The credential: a name in credentials, a strategy written here, or none.",
            type: "a name, or a mapping",
            example: "strategy: bearer\ntoken: {env: API_TOKEN}"
        ),
        "match": KeyMeaning(
            "Which requests the route takes.",
            default: "path /NAME and host NAME.localhost",
            example: "path: /reports\nhosts: [reports.localhost]"
        ),
        "allow": KeyMeaning(
            "The only methods and paths that may be requested. Any other request gets 403.",
            default: "everything",
            example: "- {methods: [GET, HEAD], path: /**}\n- {methods: [POST], path: /files/*/content}"
        ),
        "allow_plaintext": KeyMeaning(
            "Accepts an http upstream that is not on this machine: everything is then sent in clear.",
            default: "false",
            example: "true"
        ),
        "clients": KeyMeaning(
            "The clients of access.clients that may use the route.",
            default: "all",
            example: "[laptop, ci]"
        ),
        "authz": KeyMeaning(
            "The engines of listeners.authz that are handed the credential of the route.",
            default: "[]",
            type: "list of engines",
            example: "[edge]"
        ),
        "allow_origins": KeyMeaning(
            "The origins of web pages that may call the route from a browser (CORS).",
            default: "those of access.allow_origins",
            example: "[https://app.example.com]"
        ),
        "headers": KeyMeaning(
            "Header fields that are set on the requests or removed from them.",
            example: "set: {X-Tenant: acme}\nremove: [X-Debug]"
        ),
        "cookies": KeyMeaning(
            "Whether Cookie and Set-Cookie are forwarded.",
            default: "drop beside a credential, pass with auth: none",
            example: "pass"
        ),
        "rewrite": KeyMeaning(
            "What of the upstream's own URLs is turned into URLs of the gateway.",
            example: "{links: false}"
        ),
        "connection_auth": KeyMeaning(
            "Lets clients authenticate their connection with NTLM or Negotiate. For routes with auth: none.",
            default: "false",
            example: "true"
        ),
        "via": KeyMeaning(
            "Whether to send Via. Set false for upstreams such as nginx that then do not compress; the gateway detects loops by Gateway-Loop instead.",
            default: "true",
            example: "false"
        ),
        "tls": KeyMeaning(
            "How the upstream's certificate is checked, and the certificate that is shown to it.",
            example: "ca: corp-ca.pem\nserver_name: api.internal"
        ),
        "whoami": KeyMeaning(
            "A request that changes nothing and shows whose credential it is. doctor, add and check --acquire send it.",
            type: "a path, or a mapping",
            example: "path: /user\nshows: /login"
        ),
        "protocol": KeyMeaning(
            "The version of HTTP that the upstream is spoken to in. auto takes HTTP/2 where the upstream offers it with TLS.",
            default: "http1",
            example: "auto"
        ),
        "timeouts": KeyMeaning(
            "How long the upstream of this route may take, instead of limits.response_timeout.",
            example: "{response: 10m, idle: 2m}"
        ),
    ]

    static let timeoutMeanings: [String: KeyMeaning] = [
        "response": KeyMeaning(
            "Maximum time from the end of a request to the beginning of its response. After that, the client gets 504.",
            default: "limits.response_timeout",
            example: "10m"
        ),
        "idle": KeyMeaning(
            "Longest pause within a response, or within a tunnel such as a WebSocket. After that, it is cut.",
            default: "limits.response_timeout",
            example: "2m"
        ),
    ]
}

extension RouteMatch {
    static let meanings: [String: KeyMeaning] = [
        "path": KeyMeaning(
            "The path that requests begin with. It is removed before they are forwarded.",
            default: "/NAME",
            example: "/reports"
        ),
        "hosts": KeyMeaning(
            "The hosts that requests name. * stands for one label.",
            default: "[NAME.localhost]",
            example: "[reports.localhost, \"*.reports.example\"]"
        ),
        "all": KeyMeaning(
            "A request has to have one of the hosts and the path. Otherwise one of both finds the route.",
            default: "false",
            example: "true"
        ),
        "upstream_path": KeyMeaning(
            "What the path begins with in requests for the upstream's own host: in absolute form, and behind a CONNECT. It is not"
                + " removed.",
            default: "the path of upstream",
            example: "/2.0"
        ),
        "default": KeyMeaning(
            "Of several routes to the same host and path, takes such requests where the client does not tell the routes apart.",
            default: "false",
            example: "true"
        ),
    ]
}

extension RouteAccess {
    static let ruleMeanings: [String: KeyMeaning] = [
        "methods": KeyMeaning("The methods of this rule.", default: "all", example: "[GET, HEAD]"),
        "path": KeyMeaning(
            "The paths of this rule. * stands for one segment, ** at the end for any number.",
            example: "/files/*/content"
        ),
    ]
}

extension RouteHeaders {
    static let meanings: [String: KeyMeaning] = [
        "set": KeyMeaning(
            "Fields that are sent in the place of the client's own: a text or a secret each.",
            example: "X-Tenant: acme\nX-Api-Key: {env: PARTNER_API_KEY}"
        ),
        "remove": KeyMeaning("Fields that are not forwarded.", default: "[]", example: "[X-Debug]"),
        "forwarded": KeyMeaning(
            "What becomes of Forwarded, X-Forwarded-For and the like.",
            default: "remove",
            example: "append"
        ),
    ]
}

extension RouteTLS {
    static let meanings: [String: KeyMeaning] = [
        "ca": KeyMeaning(
            "The file with the authorities that the upstream's certificate must come from.",
            default: "those of the system",
            example: "corp-ca.pem"
        ),
        "server_name": KeyMeaning(
            "The name that the certificate must have.",
            default: "the host of upstream",
            example: "api.internal"
        ),
        "certificate": KeyMeaning("The certificate that is shown to the upstream, in PEM.", example: "client.pem"),
        "private_key": KeyMeaning("The key of that certificate, in PEM.", example: "{file: client-key.pem}"),
        "pin": KeyMeaning(
            "The SHA-256 of the public key in the upstream's certificate.",
            example: "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        ),
    ]
}
