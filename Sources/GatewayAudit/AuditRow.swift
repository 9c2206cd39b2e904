import GRDB
import GatewayEvents
import GatewayHTTP

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
    let previousHash: String
    package let hash: String

    /// The client's own request ID, in ``detail``.
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

/// One row of `token_requests` as it is read back: any program can have changed the file, so nothing is taken for more than text and
/// numbers. Escape the text before showing it.
package struct AuditRequestRow: Hashable, Sendable {
    package let id: Int64
    /// RFC 3339, UTC, milliseconds.
    package let at: String
    package let requestID: String
    package let route: String
    package let client: String?
    package let method: String
    package let status: Int64
    package let problem: String?
    package let credential: String?
    package let generation: Int64?
    package let wasReplayed: Bool
    package let bytesReceived: Int64
    package let bytesSent: Int64
    package let durationMilliseconds: Int64
    package let instance: String
    package let clientRequestID: String?
    package let reason: String?
    /// When the request had its credential, its connection and the head of its response, since it began.
    package let credentialMilliseconds: Int64?
    package let connectionMilliseconds: Int64?
    package let responseMilliseconds: Int64?

    package var failed: Bool { problem != nil || status >= 400 || status == 0 }

    /// nil when a column that is never empty is, or has another type: the file was changed.
    init?(_ values: [DatabaseValue]) {
        guard values.count == AuditSchema.requestColumns.count else { return nil }
        func text(_ column: Int) -> String? { String.fromDatabaseValue(values[column]) }
        func number(_ column: Int) -> Int64? { Int64.fromDatabaseValue(values[column]) }
        guard let id = number(0), let at = text(1), let requestID = text(2), let route = text(3), let method = text(5),
            let status = number(6), let replayed = number(10), let bytesReceived = number(11),
            let bytesSent = number(12), let duration = number(13), let instance = text(14)
        else { return nil }
        (self.id, self.at, self.requestID, self.route, client) = (id, at, requestID, route, text(4))
        (self.method, self.status, problem, credential) = (method, status, text(7), text(8))
        (generation, wasReplayed) = (number(9), replayed != 0)
        (self.bytesReceived, self.bytesSent, durationMilliseconds) = (bytesReceived, bytesSent, duration)
        self.instance = instance
        (clientRequestID, reason) = (text(15), text(16))
        (credentialMilliseconds, connectionMilliseconds, responseMilliseconds) = (number(17), number(18), number(19))
    }

    /// One line of JSON Lines, members named and ordered as the columns of the table.
    package var json: String {
        var line = JSONLine()
        line.add("id", id)
        line.add("at", at)
        line.add("request_id", requestID)
        line.add("route", route)
        line.add("client", client)
        line.add("method", method)
        line.add("status", status)
        line.add("problem", problem)
        line.add("credential", credential)
        line.add("generation", generation)
        line.add("replayed", wasReplayed)
        line.add("bytes_received", bytesReceived)
        line.add("bytes_sent", bytesSent)
        line.add("duration_ms", durationMilliseconds)
        line.add("instance", instance)
        line.add("client_request_id", clientRequestID)
        line.add("reason", reason)
        line.add("credential_ms", credentialMilliseconds)
        line.add("connection_ms", connectionMilliseconds)
        line.add("response_ms", responseMilliseconds)
        return line.text
    }
}

/// A row of one of many logs.
package struct SharedAuditRow: Hashable, Sendable {
    /// The host of the gateway that wrote it; nil where the database names none.
    package let gateway: String?
    package let chain: String
    package let row: AuditRow

    /// ``AuditRow/json`` with the gateway in front.
    package var json: String {
        var line = JSONLine()
        line.add("gateway", gateway)
        line.add("chain", chain)
        row.add(to: &line)
        return line.text
    }
}
