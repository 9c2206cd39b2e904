/// Reads `audit.anchor`.
enum AnchorDecoder {
    private static let kinds = ["command", "syslog", "file"]

    static func decode(_ fields: ConfigFields?, audit path: String) -> AnchorPlan? {
        guard let fields else { return nil }
        fields.explain(meanings)
        defer { fields.refuseUnknownKeys() }
        // All are read, so that all are known.
        let command = command(fields)
        let syslog = fields.has("syslog") ? tag(fields).map { AnchorPlan.syslog(tag: $0) } : nil
        let file = fields.filePath("file").flatMap { place($0, fields, audit: path) }
        let given = kinds.filter(fields.has)
        guard given.count == 1 else {
            if given.count > 1 || fields.unknownKeys.isEmpty {
                fields.error("an anchor has exactly one of \(kinds.joined(separator: ", "))")
            }
            return nil
        }
        return command ?? syslog ?? file
    }

    private static func command(_ fields: ConfigFields) -> AnchorPlan? {
        let command = fields.command("command")
        let read = fields.command("read")
        let timeout = fields.duration("timeout", in: .milliseconds(100) ... .seconds(15)) ?? .seconds(5)
        for key in ["read", "timeout"] where fields.has(key) && !fields.has("command") {
            fields.error(key, "is for an anchor with a \"command\"")
        }
        return command.map { command in
            .command(
                TokenProgram(command: command, timeout: timeout),
                read: read.map { TokenProgram(command: $0, timeout: timeout) }
            )
        }
    }

    /// What a program calls itself in the system log: one short word (RFC 5424 section 6.2.5 allows 48 characters).
    private static func tag(_ fields: ConfigFields) -> String? {
        guard let (scalar, _) = fields.scalar("syslog") else { return nil }
        if scalar.text == "true", !scalar.isQuoted { return "authgateway" }
        let isPlain = scalar.text.utf8.allSatisfy(\.isHostByte)
        guard isPlain, (1...48).contains(scalar.text.utf8.count), scalar.isQuoted || scalar.text != "false" else {
            fields.error(
                "syslog",
                "expected true, or a tag of letters, digits, \"-\", \"_\" and \".\"; found \(scalar.shown)"
            )
            return nil
        }
        return scalar.text
    }

    private static func place(_ file: String, _ fields: ConfigFields, audit path: String) -> AnchorPlan? {
        guard file != path, file != "\(path).head" else {
            fields.error("file", "is a file of the audit log itself; an anchor is kept elsewhere")
            return nil
        }
        return .file(path: file)
    }

    static let meanings: [String: KeyMeaning] = [
        "command": KeyMeaning(
            "A program that reads one line with the head of the log from its standard input, and keeps it.",
            example: "[/usr/local/bin/keep-head]"
        ),
        "read": KeyMeaning(
            "A program that prints the lines that command has kept, or the last one, for audit verify and the start.",
            example: "[/usr/local/bin/kept-heads]"
        ),
        "timeout": KeyMeaning("Maximum time of one call of these programs.", default: "5s", example: "10s"),
        "syslog": KeyMeaning(
            "The log of the system gets the head. true, or the tag to write it under.",
            example: "true"
        ),
        "file": KeyMeaning(
            "A file that the head is appended to. Keep it on another machine, where a person who can change the log cannot change it.",
            example: "/mnt/elsewhere/audit.heads"
        ),
    ]
}
