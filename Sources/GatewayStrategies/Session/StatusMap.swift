import GatewayConfiguration

/// What the status of an authorizer's answer means.
struct StatusMap: Hashable {
    enum Outcome: Hashable {
        case success
        /// The tokens are no longer recognised: forget them, a person must log in.
        case terminal
        /// Try again with back-off, keep the tokens.
        case transient
        /// Waiting does not help: a person must look. The tokens are kept.
        case unlisted
    }

    /// One status, or a class of them written `5xx`.
    enum Pattern: Hashable {
        case status(Int)
        case statusClass(Int)

        init?(_ text: String) {
            if let status = Int(text), (100...599).contains(status), text.utf8.count == 3 {
                self = .status(status)
            } else if text.utf8.count == 3, text.hasSuffix("xx"), let first = text.first?.wholeNumberValue,
                (1...5).contains(first)
            {
                self = .statusClass(first)
            } else {
                return nil
            }
        }
    }

    static let standard = StatusMap(outcomes: [
        .statusClass(2): .success, .status(400): .terminal, .status(408): .transient, .status(429): .transient,
        .statusClass(5): .transient,
    ])

    private var outcomes: [Pattern: Outcome]
    /// What the configuration says, without the defaults.
    private var written: [Pattern: Outcome] = [:]

    private init(outcomes: [Pattern: Outcome]) { self.outcomes = outcomes }

    /// Reads `status: {success: [2xx], terminal: [400], transient: [429, 5xx]}`; a list that is left out keeps its
    /// default.
    init(in fields: ConfigFields) {
        self = .standard
        guard let lists = fields.fields("status") else { return }
        lists.explain([
            "success": KeyMeaning("Statuses of a success.", default: "[2xx]", example: "[200]"),
            "terminal": KeyMeaning(
                "Statuses that mean that the token or session is no longer valid.",
                default: "[400]",
                example: "[400, 410]"
            ),
            "transient": KeyMeaning(
                "Statuses after which the gateway tries again, and keeps the token.",
                default: "[408, 429, 5xx]",
                example: "[429, 5xx]"
            ),
        ])
        var written: [Pattern: Outcome] = [:]
        let keys: [(String, Outcome)] = [("success", .success), ("terminal", .terminal), ("transient", .transient)]
        for (key, outcome) in keys {
            guard let texts = lists.strings(key) else { continue }
            outcomes = outcomes.filter { $0.value != outcome }
            for text in texts {
                guard let pattern = Pattern(text) else {
                    lists.error(key, "expected a status such as 400 or a class such as 5xx")
                    continue
                }
                if let other = written[pattern], other != outcome {
                    lists.error(key, "a status is in two lists")
                }
                written[pattern] = outcome
            }
        }
        lists.refuseUnknownKeys()
        outcomes.merge(written) { $1 }
        self.written = written
    }

    /// Whether the configuration itself gives this status this meaning.
    func states(_ status: Int, _ outcome: Outcome) -> Bool {
        (written[.status(status)] ?? written[.statusClass(status / 100)]) == outcome
    }

    /// A status of its own comes before its class.
    func outcome(of status: Int) -> Outcome {
        outcomes[.status(status)] ?? outcomes[.statusClass(status / 100)] ?? .unlisted
    }
}
