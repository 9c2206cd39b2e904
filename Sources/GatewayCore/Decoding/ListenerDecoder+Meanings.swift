extension ListenerDecoder {
    static let meanings: [String: KeyMeaning] = [
        "proxy": KeyMeaning(
            "Where clients send their requests. Off loopback access.clients is needed.",
            default: "[{address: 127.0.0.1:8080}]",
            example: "- address: 127.0.0.1:8080\n- unix: ./state/proxy.sock"
        ),
        "admin": KeyMeaning(
            "Where the commands and the status page find the gateway. Only this machine can reach it.",
            default: "{address: 127.0.0.1:8081}",
            example: "unix: ./state/admin.sock\nallow_users: [operator]"
        ),
    ]

    /// Of a proxy listener and of the admin listener.
    static let addressMeanings: [String: KeyMeaning] = [
        "address": KeyMeaning(
            "Host and port. Port 0 takes any free port.",
            type: "host:port",
            example: "127.0.0.1:8080"
        ),
        "unix": KeyMeaning(
            "The path of a unix socket, in the place of an address. At most 103 bytes.",
            example: "./state/proxy.sock"
        ),
        "allow_users": KeyMeaning(
            "The users of this machine that may use the unix socket, by name or number. Without it, only the gateway's own"
                + " user may.",
            default: "[]",
            example: "[alice, \"1000\"]"
        ),
    ]

    static let adminMeanings: [String: KeyMeaning] = [
        "tls": KeyMeaning(
            "Serves https. Needed where other machines can reach the address.",
            example: "certificate: cert.pem\nprivate_key: {file: key.pem}"
        ),
        "users": KeyMeaning(
            "Who may use the listener, besides who can read the admin token in the state directory. Needed where other machines can"
                + " reach the address.",
            example: "prometheus: {role: viewer, token: {file: ./prometheus.token}}\n"
                + "alice: {role: operator, token: {file: ./alice.token}}"
        ),
        "require_token": KeyMeaning(
            "Asks for the admin token to see something, too: the page, /api/*, /metrics and /readyz?verbose.",
            default: "false",
            example: "true"
        ),
    ]

    static let tlsOfListener: [String: KeyMeaning] = [
        "tls": KeyMeaning(
            "Serves https at this address.",
            example: "certificate: cert.pem\nprivate_key: {file: key.pem}"
        )
    ]

    static let interceptMeanings: [String: KeyMeaning] = [
        "intercept": KeyMeaning(
            "Takes CONNECT for hosts of routes, as clients with HTTPS_PROXY send it. TLS ends here, with a certificate of the local"
                + " authority (authgateway ca show). Requests get their credential.",
            default: "false",
            example: "true"
        ),
        "connect": KeyMeaning(
            "What becomes of servers that no route leads to.",
            default: "{unrouted: refuse}",
            example: "unrouted: tunnel\nallow: [\"*.example.com\"]"
        ),
    ]

    static let connectMeanings: [String: KeyMeaning] = [
        "unrouted": KeyMeaning(
            "tunnel passes what clients send to servers without a route: the bytes of a CONNECT, and plain requests. No credential is"
                + " added. refuse answers with what to do.",
            default: "refuse",
            example: "tunnel"
        ),
        "allow": KeyMeaning(
            "The servers that may be reached: hosts, names below one, addresses and networks. Empty: every server at public"
                + " addresses. Other addresses are dialled for a host or network that is named here, and not for *.NAME.",
            default: "[]",
            type: "list of hosts, addresses and networks",
            example: "[\"*.example.com\", intranet.example.com, 10.1.0.0/16]"
        ),
        "ports": KeyMeaning(
            "The ports that may be reached. Plain requests may ask for port 80, too.",
            default: "[443]",
            type: "list of ports",
            example: "[443, 8443]"
        ),
    ]

    static let tlsMeanings: [String: KeyMeaning] = [
        "certificate": KeyMeaning(
            "The file with the server's certificate in PEM, then those of its issuers.",
            example: "cert.pem"
        ),
        "private_key": KeyMeaning("The key of the certificate, in PEM.", example: "{file: key.pem}"),
        "ca": KeyMeaning(
            "local: in the place of a certificate. Answers for the servers of routes, by the name in the TLS hello, with certificates of"
                + " the local authority. For clients whose DNS or hosts file leads here.",
            example: "local"
        ),
        "client_ca": KeyMeaning(
            "The file with the authorities that a client's certificate must come from. Without it, none is asked for.",
            example: "clients-ca.pem"
        ),
    ]
}
