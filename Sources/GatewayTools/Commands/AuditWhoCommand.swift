import ArgumentParser
import GatewayApp
import GatewayAudit
import GatewayConfiguration
import GatewayEvents
import GatewayHTTP

struct AuditWhoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "who",
        abstract: "Show who used a credential, how often, when first and last, and with which result.",
        discussion: """
            Examples:
              authgateway audit who box-service
              authgateway audit who box-service --since "yesterday 14:00" --until 15:00
              authgateway audit who box-service --by status --since 24h
              authgateway audit who box-service --by route --since yesterday --json
              authgateway audit who box-service --all --since 1h

            Requests are counted by the minute, so whole minutes count. With
            audit.usage: request, the first and the last request are named, too.
            A 4xx is any other than 401, 403 and 429.
            If the log cannot say, because uses are not recorded or were removed by
            audit.retention, the exit code is 1.
            """
    )

    @Argument(help: "The credential. Its subjects are included.")
    var credential: String

    @Option(help: ArgumentHelp("What has a row: client, route or status.", valueName: "what"))
    var by = "client"

    @OptionGroup var period: AuditPeriod
    @OptionGroup var scope: AuditScope
    @OptionGroup var json: JSONFlag

    @Flag(help: "Show local time instead of UTC.")
    var local = false

    func run() async throws(CommandFailure) { try await write { Console.write($0) } }

    func write(to emit: (String) -> Bool) async throws(CommandFailure) {
        let question = try question()
        let answer: AuditWho?
        // nil when a database is named instead of a configuration.
        let usage: AuditPlan.Usage?
        let shared = try scope.shared()
        if let logs = shared {
            usage = logs.settings.plan.audit.usage
            answer = try await logs.read { reader in
                try await logs.names(of: reader).require(credential: credential)
                return try await reader.who(question)
            }
        } else {
            let log = try scope.source.log()
            usage = log.settings?.plan.audit.usage
            await log.takeIn()
            try await log.names().require(credential: credential)
            answer = try await LocalAuditLog.reading { try await AuditReader(path: log.path).who(question) }
        }
        guard let answer else { return }
        if let gap = gap(of: answer, usage) { throw CommandFailure(.failed, gap) }
        shared?.noteNewestUses(until: question.until)
        if answer.total == nil {
            Console.writeError("no requests used \(LogText.clean(credential)) in this period\n")
            guard json.isOn else { return }
        }
        _ = emit(try json.text(of: answer, or: text(of: answer)))
    }

    private func question() throws(CommandFailure) -> AuditWho.Question {
        let known = AuditWho.Grouping.allCases.map(\.rawValue)
        if let message = UnknownName.message(by, kind: "grouping", in: "audit who --by", known: known) {
            throw CommandFailure(.usage, message)
        }
        let period = try period.read()
        return AuditWho.Question(
            credential: credential,
            by: AuditWho.Grouping(rawValue: by) ?? .client,
            since: period.since,
            until: period.until
        )
    }

    private func gap(of answer: AuditWho, _ usage: AuditPlan.Usage?) -> String? {
        guard usage == nil, answer.recordedSince == nil else {
            return answer.gap(countsUses: usage != AuditPlan.Usage.none)
        }
        return "this log has no uses; they are recorded unless audit.usage is none"
    }

    // MARK: For people

    private func text(of answer: AuditWho) -> String {
        let hasRequests = answer.groups.contains { $0.lastRequestId != nil }
        let showsResults = answer.by != .status
        let titles =
            [answer.by.rawValue.uppercased(), "REQUESTS"] + (showsResults ? ["RESULTS"] : []) + ["FIRST", "LAST"]
            + (hasRequests ? ["LAST REQUEST"] : [])
        let now = SystemClock().now().wall
        let table = TextTable.fitting(.current) { isShort in
            var table = TextTable(titles, shortened: [0])
            func time(_ text: String) -> String { isShort ? formatter.shortTime(text, now: now) : self.time(text) }
            func add(_ name: String, _ group: AuditWho.Group) {
                let results = group.results.map { "\($0.status) \($0.requests)" }.joined(separator: ", ")
                let cells =
                    [name, String(group.requests)] + (showsResults ? [results] : [])
                    + [time(group.firstAt), time(group.lastAt)] + (hasRequests ? [group.lastRequestId ?? "-"] : [])
                table.add(cells, color: nil, column: 0)
            }
            for group in answer.groups { add(group.name ?? "(none)", group) }
            if let total = answer.total { add("total", total) }
            return table
        }
        return heading(of: answer) + table
    }

    /// Says how `--since` and `--until` were understood.
    private func heading(of answer: AuditWho) -> String {
        let since = answer.since.map { " from \(time($0))" }
        let until = answer.until.map { " until \(time($0))" }
        let all = answer.recordedSince.map { " since the log begins, \(time($0))" } ?? ""
        return "Uses of \(LogText.clean(answer.credential))\(since ?? (until == nil ? all : ""))\(until ?? "")\n\n"
    }

    private var formatter: AuditFormatter { AuditFormatter(offset: local ? LocalTime.offset : nil) }
    private func time(_ text: String) -> String { formatter.time(text) }
}
