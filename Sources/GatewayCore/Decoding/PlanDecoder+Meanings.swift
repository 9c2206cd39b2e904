extension PlanDecoder {
    /// The keys of the whole document.
    static let meanings: [String: KeyMeaning] = [
        "version": KeyMeaning("The version of the configuration's language.", type: "the number 1", example: "1"),
        // Read by what loads the files, before this is decoded.
        "include": KeyMeaning(
            "More files whose content is merged into this one. The last part of a path may have * and ?.",
            type: "a path, or a list of paths",
            example: "conf.d/*.yaml"
        ),
        "presets": KeyMeaning(
            "A folder with presets of your own: *.yaml files. They replace built-in ones of the same name.",
            type: "a path",
            example: "./presets"
        ),
        "state_directory": KeyMeaning(
            "The folder for tokens, keys, the audit log and the admin token. It is created with mode 0700.",
            default: "./state",
            example: "/var/lib/authgateway"
        ),
        "workers": KeyMeaning(
            "How many event loops handle connections. auto is one per processor core.",
            default: "auto",
            type: "auto, or a whole number from 1 to 256",
            example: "2"
        ),
        "proxy_status": KeyMeaning(
            "Whether answers carry Proxy-Status (RFC 9209), which names the upstream.",
            default: "true",
            example: "false"
        ),
        "request_id_header": KeyMeaning(
            "The field that names each request in its answer, in logs and in the audit log. off leaves it out.",
            default: "Gateway-Request-Id",
            type: "the name of a header field, or off",
            example: "X-Request-Id"
        ),
        "listeners": KeyMeaning(
            "Where the gateway can be reached.",
            example: "proxy: [{address: 127.0.0.1:8080}]\nadmin: {address: 127.0.0.1:8081}"
        ),
        "access": KeyMeaning(
            "Who may use the gateway.",
            example: "clients: {laptop: {token: {file: ./laptop.token}}}\nrequire_client: auto"
        ),
        "audit": KeyMeaning(
            "What is recorded of tokens and requests, and for how long.",
            example: "usage: minute\nretention: 90d"
        ),
        "tokens": KeyMeaning(
            "Where tokens are kept between two starts.",
            example: "store: sqlite\nkey: {file: ./state/token.key}"
        ),
        "limits": KeyMeaning(
            "Maximum sizes, numbers and times of requests and connections.",
            example: "header_bytes: 64KiB\nresponse_timeout: 2m"
        ),
        "ca": KeyMeaning(
            "The local authority, which signs certificates for hosts of routes where a listener has intercept: true.",
            example: "permit: [box.com]\ndays: 30"
        ),
        "telemetry": KeyMeaning(
            "Where spans and metrics are exported to (OpenTelemetry). Without it nothing is.",
            example: "otlp: http://127.0.0.1:4318\nsampling: 10%"
        ),
        "credentials": KeyMeaning(
            "Credentials with a name, which routes share.",
            example: "reports: {strategy: bearer, token: {env: REPORTS_TOKEN}}\n"
                + "box: {strategy: box_ccg, client_id: abc, client_secret: {env: BOX}, subject: {enterprise: \"1\"}}"
        ),
        "routes": KeyMeaning(
            "Which requests go to which upstream, and with which credential.",
            example: "reports: {upstream: https://reports.example.com, auth: none}\n"
                + "api: {upstream: https://api.example.com, auth: none}"
        ),
    ]
}
