import GatewayEvents
package import GatewayHTTP

/// Shows rows to people: one aligned line each, or on a terminal as many as it needs.
package struct AuditFormatter: Sendable {
    private let coloured: Bool
    private let width: Int?
    private let offset: (@Sendable (UnixTime) -> Int)?

    /// - Parameters:
    ///   - width: The columns of the terminal. What does not fit goes on in an indented line, and a single fact that is longer than a line
    ///     is shortened. nil for lines of any length.
    ///   - offset: the local time's seconds east of UTC at a moment; nil shows UTC.
    package init(coloured: Bool = false, width: Int? = nil, offset: (@Sendable (UnixTime) -> Int)? = nil) {
        self.coloured = coloured
        self.width = width.map { max($0, Self.minimumWidth) }
        self.offset = offset
    }

    /// On a narrower terminal, lines are broken by the terminal.
    private static let minimumWidth = 40
    private static let indent = 4

    package func line(_ row: AuditRow) -> String { laidOut(parts(of: row)) }

    /// With the host of the gateway in front.
    package func line(_ row: SharedAuditRow) -> String {
        laidOut([Part(pad(SafeText.singleLine(row.gateway ?? "-"), to: 16))] + parts(of: row.row))
    }

    private func parts(of row: AuditRow) -> [Part] {
        var parts = [
            Part(time(row.at), .dim),
            Part(pad(SafeText.singleLine(row.event), to: 18), row.failed ? .red : Self.colour(of: row.event)),
            Part(pad(SafeText.singleLine(row.credential ?? "-"), to: 20)),
            Part(pad(row.generation.flatMap { $0 > 0 ? "gen \($0)" : nil } ?? "", to: 7)),
        ]
        if row.failed { parts.append(Part("failed", .red)) }
        parts += facts(row).map { Part($0) }
        while parts.last?.text.allSatisfy({ $0 == " " }) == true { parts.removeLast() }
        return parts
    }

    /// A piece of a line that is not broken.
    private struct Part {
        let text: String
        let colour: Colour

        init(_ text: String, _ colour: Colour = .plain) {
            self.text = text
            self.colour = colour
        }
    }

    private func laidOut(_ parts: [Part]) -> String {
        guard let width else { return parts.map { paint($0.text, $0.colour) }.joined(separator: "  ") }
        var lines: [[Part]] = [[]]
        var column = 0
        for part in parts {
            let trimmed = Self.trimmed(part.text)
            if column > 0, column + 2 + trimmed.count > width {
                // A column that is empty is not worth a line.
                guard !trimmed.isEmpty else { continue }
                lines.append([])
                column = Self.indent
            } else if column > 0 {
                column += 2
            }
            let room = width - column
            // Blanks behind a column only fill it up.
            let shown = part.text.count <= room ? part.text : shortened(trimmed, to: room)
            lines[lines.count - 1].append(Part(shown, part.colour))
            column += shown.count
        }
        return lines.map(joined).joined(separator: "\n" + String(repeating: " ", count: Self.indent))
    }

    /// Without blanks at the end.
    private func joined(_ line: [Part]) -> String {
        var line = line
        while let last = line.popLast() {
            let text = Self.trimmed(last.text)
            guard text.isEmpty else {
                line.append(Part(text, last.colour))
                break
            }
        }
        return line.map { paint($0.text, $0.colour) }.joined(separator: "  ")
    }

    private static func trimmed(_ text: String) -> String {
        String(text.prefix(upTo: text.lastIndex { $0 != " " }.map { text.index(after: $0) } ?? text.startIndex))
    }

    private func shortened(_ text: String, to width: Int) -> String {
        text.count <= width ? text : text.prefix(max(0, width - 1)) + "…"
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
            Part(time(row.at), .dim),
            Part(pad(SafeText.singleLine(row.method), to: 7)),
            Part(pad(String(row.status), to: 3), row.failed ? .red : .green),
            Part(pad(SafeText.singleLine(row.route), to: 16)),
            Part(pad(SafeText.singleLine(row.credential ?? "-"), to: 20)),
            Part(pad(row.generation.flatMap { $0 > 0 ? "gen \($0)" : nil } ?? "", to: 7)),
        ]
        return laidOut(parts + facts.map { Part($0) })
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
        return facts + details(row.detail).map { SafeText.singleLine($0, limit: 2048) }
    }

    /// On a terminal, where a long fact is shortened, the explanation is one of its own: the names before it would hide it.
    private func details(_ json: String) -> [String] {
        let whole = json == "{}" ? [] : [json]
        guard width != nil, case .object(var members)? = JSONValue(Array(json.utf8)),
            let explanation = members.removeValue(forKey: "explanation")?.string,
            let rest = try? JSONValue.object(members).bytes()
        else { return whole }
        return [explanation] + (members.isEmpty ? [] : [String(decoding: rest, as: UTF8.self)])
    }

    /// A time of a row, as it is shown in lines.
    package func time(_ text: String) -> String {
        guard let moment = UnixTime(rfc3339: text) else { return SafeText.singleLine(text) }
        guard let offset = offset?(moment) else { return moment.rfc3339 }
        let local = (moment + .seconds(offset)).rfc3339.dropLast()
        let minutes = abs(offset) / 60
        return "\(local)\(offset < 0 ? "-" : "+")\(two(minutes / 60)):\(two(minutes % 60))"
    }

    /// The same for a narrow column: `14:03:05Z` for a time of today, otherwise `2026-03-01 14:03Z`. Local times have no `Z`.
    ///
    /// - Parameter now: Says which day is today.
    package func shortTime(_ text: String, now: UnixTime) -> String {
        guard let moment = UnixTime(rfc3339: text) else { return SafeText.singleLine(text) }
        func shown(_ moment: UnixTime) -> String { (moment + .seconds(offset?(moment) ?? 0)).rfc3339 }
        let (shown, today) = (shown(moment), shown(now))
        let zone = offset == nil ? "Z" : ""
        guard let date = shown.firstIndex(of: "T") else { return shown }
        let clock = shown[shown.index(after: date)...]
        guard shown[..<date] != today[..<date] else { return "\(clock.prefix(8))\(zone)" }
        return "\(shown[..<date]) \(clock.prefix(5))\(zone)"
    }

    private func two(_ number: Int) -> String { number < 10 ? "0\(number)" : String(number) }

    private func pad(_ text: String, to width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    private enum Colour: String {
        case plain = ""
        case red = "31"
        case green = "32"
        case yellow = "33"
        case cyan = "36"
        case dim = "2"
    }

    private func paint(_ text: String, _ colour: Colour) -> String {
        guard coloured, colour != .plain else { return text }
        return "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m"
    }

    /// Green brings a token, yellow takes one away or asks for a person, cyan is about the gateway itself. What failed is red.
    private static func colour(of event: String) -> Colour {
        switch TokenEvent.Name(rawValue: event) {
        case .acquired, .renewed, .loaded, .imported, .adopted, .loginCompleted: .green
        case .rejected, .withheld, .expired, .revoked, .cleared, .locked, .unlocked, .loginRequired, .expiringSoon:
            .yellow
        case .gatewayStarted, .gatewayStopped, .configLoaded, .configRefused, .operatorRequest: .cyan
        default: .plain
        }
    }
}
