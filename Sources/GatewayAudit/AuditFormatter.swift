import GatewayEvents
package import GatewayHTTP

/// Shows rows to people: one aligned line each.
package struct AuditFormatter: Sendable {
    private let coloured: Bool
    private let offset: (@Sendable (UnixTime) -> Int)?

    /// - Parameter offset: the local time's seconds east of UTC at a moment; nil shows UTC.
    package init(coloured: Bool = false, offset: (@Sendable (UnixTime) -> Int)? = nil) {
        self.coloured = coloured
        self.offset = offset
    }

    package func line(_ row: AuditRow) -> String {
        let event = pad(SafeText.singleLine(row.event), to: 18)
        var parts = [
            paint(time(row.at), .dim),
            paint(event, row.failed ? .red : Self.good.contains(row.event) ? .green : .plain),
            pad(SafeText.singleLine(row.credential ?? "-"), to: 20),
            pad(row.generation.map { "gen \($0)" } ?? "", to: 7),
        ]
        if row.failed { parts.append(paint("failed", .red)) }
        parts += facts(row)
        while parts.last?.allSatisfy({ $0 == " " }) == true { parts.removeLast() }
        return parts.joined(separator: "  ")
    }

    /// With the host of the gateway in front.
    package func line(_ row: SharedAuditRow) -> String {
        "\(pad(SafeText.singleLine(row.gateway ?? "-"), to: 16))  \(line(row.row))"
    }

    package func line(_ row: AuditRequestRow) -> String {
        var facts: [String] = []
        func add(_ name: String, _ value: String?) {
            if let value { facts.append("\(name)=\(SafeText.singleLine(value))") }
        }
        add("problem", row.problem)
        if row.wasReplayed { facts.append("replayed") }
        add("took", "\(row.durationMilliseconds)ms")
        add("received", String(row.bytesReceived))
        add("sent", String(row.bytesSent))
        add("reason", row.reason == row.problem ? nil : row.reason)
        add("client", row.client)
        add("request", row.requestID)
        add("client_request", row.clientRequestID)
        let parts = [
            paint(time(row.at), .dim),
            pad(SafeText.singleLine(row.method), to: 7),
            paint(pad(String(row.status), to: 3), row.failed ? .red : .green),
            pad(SafeText.singleLine(row.route), to: 16),
            pad(SafeText.singleLine(row.credential ?? "-"), to: 20),
            pad(row.generation.map { "gen \($0)" } ?? "", to: 7),
        ]
        return (parts + facts).joined(separator: "  ")
    }

    private func facts(_ row: AuditRow) -> [String] {
        var facts: [String] = []
        func add(_ name: String, _ value: String?) {
            if let value { facts.append("\(name)=\(SafeText.singleLine(value))") }
        }
        add("trigger", row.trigger)
        add("status", row.httpStatus.map(String.init))
        add("error", row.errorCode)
        add("took", row.durationMilliseconds.map { "\($0)ms" })
        add("expires", row.expiresAt.map(time))
        add("waiters", row.waiters.map(String.init))
        add("route", row.route)
        add("client", row.client)
        add("request", row.requestID)
        add("token", row.tokenFingerprint)
        if row.detail != "{}" { facts.append(SafeText.singleLine(row.detail, limit: 2048)) }
        return facts
    }

    /// A time of a row, as it is shown in lines.
    package func time(_ text: String) -> String {
        guard let moment = UnixTime(rfc3339: text) else { return SafeText.singleLine(text) }
        guard let offset = offset?(moment) else { return moment.rfc3339 }
        let local = (moment + .seconds(offset)).rfc3339.dropLast()
        let minutes = abs(offset) / 60
        return "\(local)\(offset < 0 ? "-" : "+")\(two(minutes / 60)):\(two(minutes % 60))"
    }

    private func two(_ number: Int) -> String { number < 10 ? "0\(number)" : String(number) }

    private func pad(_ text: String, to width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    private enum Colour: String {
        case plain = ""
        case red = "31"
        case green = "32"
        case dim = "2"
    }

    private func paint(_ text: String, _ colour: Colour) -> String {
        guard coloured, colour != .plain else { return text }
        return "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m"
    }

    private static let good: Set<String> = Set(
        [TokenEvent.Name.acquired, .renewed, .loaded, .imported, .adopted, .loginCompleted].map(\.rawValue)
    )
}
