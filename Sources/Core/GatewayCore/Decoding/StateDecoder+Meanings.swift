extension StateDecoder {
    static let auditMeanings: [String: KeyMeaning] = [
        "path": KeyMeaning(
            "The database of the audit log.",
            default: "audit.sqlite in state_directory",
            example: "./state/audit.sqlite"
        ),
        "usage": KeyMeaning(
            "How uses of a credential are recorded: counts per minute, not at all, or each request as well.",
            default: "minute",
            example: "request"
        ),
        "retention": KeyMeaning("How long rows are kept.", default: "90d", example: "365d"),
        "on_failure": KeyMeaning(
            "What happens when a token event cannot be recorded. block: the token is not used; degrade: it is used.",
            default: "block",
            example: "degrade"
        ),
        "on_missing": KeyMeaning(
            "What happens when the database is gone. refuse: nothing is recorded until it is put back; recreate: a new one "
                + "is begun, whose first event tells of the loss.",
            default: "refuse",
            example: "recreate"
        ),
        "max_bytes": KeyMeaning(
            "Maximum size of the database with its write-ahead log. In the last tenth, denials, failed requests and uses are "
                + "not recorded any more; it is a reserve for token and operator events.",
            default: ConfigUnits.text(bytes: AuditRoom.defaultLimit),
            example: "2GiB"
        ),
    ]

    static let tokenMeanings: [String: KeyMeaning] = [
        "store": KeyMeaning(
            "Where tokens are kept: an encrypted database, memory (they end with the process), or a program of yours.",
            default: "sqlite",
            example: "memory"
        ),
        "path": KeyMeaning(
            "The database, for store: sqlite.",
            default: "tokens.sqlite in state_directory",
            example: "./state/tokens.sqlite"
        ),
        "key": KeyMeaning(
            "The key of the audit log, and of the tokens unless encryption_key is given. The first run makes the file.",
            default: "{file: token.key} in state_directory",
            example: "{file: ./state/token.key}"
        ),
        "encryption_key": KeyMeaning(
            "The key of the token store alone, for store: sqlite. authgateway key rotate makes one.",
            default: "key",
            example: "{env: TOKEN_STORE_KEY}"
        ),
        "previous_encryption_key": KeyMeaning(
            "What the store is still encrypted with. The next start encrypts it with encryption_key.",
            example: "{env: OLD_TOKEN_STORE_KEY}"
        ),
        "command": KeyMeaning(
            "The program that keeps tokens, for store: command. It speaks the protocol of docker's credential helpers.",
            example: "[docker-credential-pass]"
        ),
        "environment": KeyMeaning(
            "Variables for that program, beside PATH, HOME and a few more.",
            default: "{}",
            example: "PASSWORD_STORE_DIR: /var/lib/pass\nPASS_TOKEN: {env: PASS_TOKEN}"
        ),
        "timeout": KeyMeaning("Maximum time of one call of that program.", default: "10s", example: "5s"),
    ]
}
