import GRDB
import GatewayCore

/// One row of `token_requests` as it is read back. Text is as the file holds it: escape it before showing it.
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
