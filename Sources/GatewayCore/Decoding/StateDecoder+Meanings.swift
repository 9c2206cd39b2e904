extension StateDecoder {
    static let auditMeanings: [String: KeyMeaning] = [
        "path": KeyMeaning(
            "The database of the audit log.",
            default: "audit.sqlite in state_directory",
            example: "./state/audit.sqlite"
        ),
        "store": KeyMeaning(
            "What an event has to be committed in before it counts as recorded. sqlite: the local database; postgres: that, and "
                + "the database of tokens.store: postgres.",
            default: "sqlite",
            example: "postgres"
        ),
        "ship": KeyMeaning(
            "Whether the log is copied to the database of tokens.store: postgres. The local database has it in any case.",
            default: "true",
            example: "false"
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
        "anchor": KeyMeaning(
            "Where the head of the log is sent as well, so that a log that was put back to an earlier state shows.",
            example: "{syslog: true}"
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
            "Where tokens are kept: an encrypted file, memory (they end with the process), a program of yours, or a PostgreSQL "
                + "database that many gateways share.",
            default: "sqlite",
            example: "memory"
        ),
        "path": KeyMeaning(
            "The database, for store: sqlite.",
            default: "tokens.sqlite in state_directory",
            example: "./state/tokens.sqlite"
        ),
        "key": KeyMeaning(
            "The key of the audit log, and of the tokens unless encryption_key is given. The first run makes the file. With store: "
                + "postgres it also names the tokens in the database: all gateways need the same key.",
            default: "{file: token.key} in state_directory",
            example: "{file: ./state/token.key}"
        ),
        "encryption_key": KeyMeaning(
            "The key of the token store alone, for store: sqlite and store: postgres. authgateway key rotate makes one for sqlite. "
                + "With store: postgres, key is required beside it.",
            default: "key",
            example: "{env: TOKEN_STORE_KEY}"
        ),
        "previous_encryption_key": KeyMeaning(
            "What the store is still encrypted with. The next start encrypts it with encryption_key; for store: postgres, "
                + "authgateway store encrypt does.",
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
        "url": KeyMeaning(
            "The database, for store: postgres. TLS is verified unless the host is this machine (sslmode=verify-full).",
            example: "postgresql://authgateway@db.example.com/authgateway"
        ),
        "listen_url": KeyMeaning(
            "The same server without a pooler in between, so that changes of other gateways arrive at once.",
            default: "url",
            example: "postgresql://authgateway@db.example.com:5432/authgateway"
        ),
        "password": KeyMeaning(
            "The password of the role in url and listen_url.",
            default: "that of the URL, or of a password file",
            example: "{file: ./secrets/database-password}"
        ),
        "ca": KeyMeaning(
            "The file with the authorities that the certificate of the database must come from, in PEM.",
            default: "those of the system",
            example: "/etc/authgateway/database-ca.pem"
        ),
        "allow_unverified": KeyMeaning(
            "Accepts an sslmode below verify-full for another machine, which can then be imitated.",
            default: "false",
            example: "true"
        ),
    ]
}
