import GRDB
import GatewayCore

/// One row of `token_events` as it is read back. Text is as the file holds it: escape it before showing it.
package struct AuditRow: Hashable, Sendable {
    package let id: Int64
    /// RFC 3339, UTC, milliseconds.
    package let at: String
    package let event: String
    package let credential: String?
    package let strategy: String?
    package let subject: String?
    package let generation: Int64?
    package let trigger: String?
    package let route: String?
    package let client: String?
    package let requestID: String?
    package let outcome: String
    package let httpStatus: Int64?
    package let errorCode: String?
    package let expiresAt: String?
    package let durationMilliseconds: Int64?
    package let waiters: Int64?
    package let tokenFingerprint: String?
    package let instance: String
    /// A JSON object.
    package let detail: String
    package let previousHash: String
    package let hash: String

    /// Of the client, in ``detail``.
    package var clientRequestID: String? { member("client_request_id") }

    /// Whether the row is about this request: by the gateway's id, by the client's, or as one of some that it counts.
    package func concerns(request id: String) -> Bool {
        requestID == id || clientRequestID == id
            || member("requests")?.split(separator: " ").contains(Substring(id)) == true
    }

    /// A text in ``detail``; nil where it has no such key.
    package func member(_ name: String) -> String? {
        guard case .object(let members)? = JSONValue(Array(detail.utf8)), case .string(let text)? = members[name]
        else { return nil }
        return text
    }

    package var failed: Bool { outcome == TokenEvent.Outcome.failed.rawValue }

    /// nil when a column that is never empty is, or has another type: the file was changed.
    init?(_ values: [DatabaseValue]) {
        guard values.count == AuditSchema.allColumns.count, case .int64(let id) = values[0].storage,
            let at = Self.text(values[1]), let event = Self.text(values[2]), let outcome = Self.text(values[11]),
            let instance = Self.text(values[18]), let detail = Self.text(values[19]),
            let previousHash = Self.text(values[20]), let hash = Self.text(values[21])
        else { return nil }
        self.id = id
        self.at = at
        self.event = event
        credential = Self.text(values[3])
        strategy = Self.text(values[4])
        subject = Self.text(values[5])
        generation = Self.number(values[6])
        trigger = Self.text(values[7])
        route = Self.text(values[8])
        client = Self.text(values[9])
        requestID = Self.text(values[10])
        self.outcome = outcome
        httpStatus = Self.number(values[12])
        errorCode = Self.text(values[13])
        expiresAt = Self.text(values[14])
        durationMilliseconds = Self.number(values[15])
        waiters = Self.number(values[16])
        tokenFingerprint = Self.text(values[17])
        self.instance = instance
        self.detail = detail
        self.previousHash = previousHash
        self.hash = hash
    }

    private static func text(_ value: DatabaseValue) -> String? {
        guard case .string(let text) = value.storage else { return nil }
        return text
    }

    private static func number(_ value: DatabaseValue) -> Int64? {
        guard case .int64(let number) = value.storage else { return nil }
        return number
    }
}

extension AuditRow {
    /// One line of JSON Lines, members named and ordered as the columns of the table.
    package var json: String {
        var line = JSONLine()
        add(to: &line)
        return line.text
    }

    func add(to line: inout JSONLine) {
        line.add("id", id)
        line.add("at", at)
        line.add("event", event)
        line.add("credential", credential)
        line.add("strategy", strategy)
        line.add("subject", subject)
        line.add("generation", generation)
        line.add("trigger", trigger)
        line.add("route", route)
        line.add("client", client)
        line.add("request_id", requestID)
        line.add("client_request_id", clientRequestID)
        line.add("outcome", outcome)
        line.add("http_status", httpStatus)
        line.add("error_code", errorCode)
        line.add("expires_at", expiresAt)
        line.add("duration_ms", durationMilliseconds)
        line.add("waiters", waiters)
        line.add("token_fingerprint", tokenFingerprint)
        line.add("instance", instance)
        line.add("detail", verbatim: detailIsObject ? detail : SafeText.json(detail))
        line.add("previous_hash", previousHash)
        line.add("hash", hash)
    }

    /// Only what certainly is an object on one line may stand in the output unquoted.
    private var detailIsObject: Bool {
        guard !detail.unicodeScalars.contains(where: { $0.value < 0x20 }), case .object = JSONValue(Array(detail.utf8))
        else { return false }
        return true
    }
}
