import ArgumentParser
import GatewayApp
import GatewayAudit
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayTokenStores

struct AuditVerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Recompute the chain of the log: finds every edit, deletion, reordering and cut tail.",
        discussion: """
            Examples:
              authgateway audit verify
              authgateway audit verify --path /backup/audit.sqlite
              authgateway audit verify --head 120:3f1c…
              authgateway audit verify --all

            Needs the installation key that the configuration names, or --key.
            Compares the log with its head file, and with audit.anchor where
            that can be read. A copy, such as sqlite3's .backup makes, may end
            before the log does. With its own head beside it
            (audit.sqlite.head) missing rows at the end are found.
            With --all, verifies the chain of each gateway as the shared database
            has it, and shows a line for each.
            Exit code 5 when the log is broken, 1 when its anchor cannot be read.
            """
    )

    @OptionGroup var scope: AuditScope
    @OptionGroup var json: JSONFlag

    @Option(help: ArgumentHelp("A row that the log has to hold, as the anchor got it.", valueName: "id:hash"))
    var head: String?

    @Option(help: ArgumentHelp("The installation key, instead of the configuration's.", valueName: "file"))
    var key: String?

    func validate() throws {
        guard scope.isAll, head != nil else { return }
        throw ValidationError("--head names a row of one log: leave out --all, or --head.")
    }

    func run() async throws(CommandFailure) { try await write { Console.write($0) } }

    /// - Throws: ``ExitStatus/verification`` when a log was tampered with, ``ExitStatus/failed`` when something cannot be said.
    func write(to emit: (String) -> Bool) async throws(CommandFailure) {
        if let logs = try scope.shared() {
            try await verify(logs, emit)
        } else {
            try await verify(try scope.source.log(), emit)
        }
    }

    private func verify(_ log: LocalAuditLog, _ emit: (String) -> Bool) async throws(CommandFailure) {
        let row = try row()
        let (settings, installation): (OperatorSettings?, InstallationKey)
        if let key {
            // What sends or reads anchors may need a secret.
            let needsPrograms = log.settings?.plan.audit.anchor != nil
            let configured = needsPrograms ? try log.settings?.withPrograms() : log.settings
            (settings, installation) = (configured, try Self.key(at: key))
        } else {
            let configured = try log.configured().withPrograms()
            (settings, installation) = (configured, try configured.installationKey())
        }
        if settings?.problem != nil {
            Console.writeError(
                "Heads that audit.anchor has kept were not compared: the configuration cannot be read.\n"
            )
        }
        let sink = settings?.plan.audit.anchor.map { AnchorSink($0) }
        var evidence = AuditEvidence()
        evidence.isCopy = Self.isCopy(log.path, settings)
        evidence.log = evidence.isCopy ? settings?.plan.audit.path : nil
        evidence.row = row
        var anchorFailure: String?
        // Before the rows, which may have gone on when they are read.
        do throws(AuditError) {
            evidence.anchor = try await sink?.heads() ?? []
        } catch {
            anchorFailure = error.reason
        }
        let (keys, known) = (AuditKeys(installation), evidence)
        let label = "Verifying the audit log"
        let result = try await ProgressLine.during(label, unless: json.isOn) {
            (progress) async throws(CommandFailure) in
            do throws(AuditError) {
                return try await AuditReader(path: log.path).verify(
                    keys: keys,
                    evidence: known,
                    onRows: progress?.counter(label)
                )
            } catch {
                throw CommandFailure(.failed, error.reason)
            }
        }
        let words = VerificationText(result: result, anchor: sink?.plan, anchorFailure: anchorFailure)
        let report = Report(verification: result, anchorFailure: anchorFailure)
        let text = json.isOn ? try JSONText.pretty(report) : words.text
        if json.isOn || words.failure == nil { _ = emit(text) }
        guard let status = words.failure else { return }
        throw CommandFailure(status, json.isOn ? "" : String(text.dropLast()))
    }

    private func row() throws(CommandFailure) -> (id: Int64, hash: String)? {
        guard let head else { return nil }
        guard let row = AnchoredHead.row(head) else {
            let advice = "write the number of a row, a colon and its hash of 64 hexadecimal digits"
            throw CommandFailure(.usage, "cannot read --head \"\(LogText.clean(head))\"; \(advice)")
        }
        return row
    }

    private static func key(at path: String) throws(CommandFailure) -> InstallationKey {
        do throws(StateError) {
            guard let key = try InstallationKey.load(path: path) else {
                throw StateError("there is no installation key at \(path)")
            }
            return key
        } catch {
            throw CommandFailure(error)
        }
    }

    /// Another file than the configuration's log.
    private static func isCopy(_ path: String, _ settings: OperatorSettings?) -> Bool {
        guard let log = settings?.plan.audit.path else { return true }
        return path != log && (FileIdentity(path) != FileIdentity(log) || FileIdentity(path) == nil)
    }

    /// Hands over a line for each chain; for programs, all in the end.
    private func verify(_ logs: SharedAuditLogs, _ emit: (String) -> Bool) async throws(CommandFailure) {
        let installation = if let key { try Self.key(at: key) } else { try logs.settings.installationKey() }
        let keys = AuditKeys(installation)
        var report = SharedVerification()
        let label = "Verifying the audit logs"
        try await ProgressLine.during(label, unless: json.isOn) { (progress) async throws(CommandFailure) in
            _ = try await logs.read { reader in
                let chains = try await reader.chains()
                progress?.step(label, total: chains.count, unit: "logs")
                for chain in chains {
                    let result = try await reader.verify(chain, keys: keys)
                    let line = report.add(chain, result)
                    progress?.add(1)
                    // The reader of the output may be gone; the exit code still counts.
                    if !json.isOn {
                        progress?.erase()
                        _ = emit(line)
                    }
                }
                guard !report.chains.isEmpty else {
                    throw CommandFailure(.failed, "\(LogText.clean(reader.name)) holds no audit log yet")
                }
            }
        }
        if json.isOn { _ = emit(try JSONText.pretty(report)) }
        guard let failure = report.failure else { return }
        throw json.isOn ? CommandFailure(failure.status) : failure
    }

    /// What is printed, and for programs.
    private struct Report: Encodable {
        let verification: AuditVerification
        /// Why the anchor was not compared although it can be read; nil when it was.
        let anchorFailure: String?

        func encode(to encoder: any Encoder) throws {
            try verification.encode(to: encoder)
            var container = encoder.container(keyedBy: Key.self)
            try container.encodeIfPresent(anchorFailure, forKey: .anchorFailure)
        }

        private enum Key: CodingKey { case anchorFailure }
    }
}

/// What `audit verify` says to people.
private struct VerificationText {
    let result: AuditVerification
    let anchor: AnchorPlan?
    let anchorFailure: String?

    /// nil when all of it was verified.
    var failure: ExitStatus? {
        if let breach = result.breach { return breach.fault == .foreignKey ? .failed : .verification }
        return anchorFailure == nil ? nil : .failed
    }

    var text: String { (result.breach.map(broken) ?? ([intact] + notes).joined(separator: "\n")) + "\n" }

    private var thing: String { result.isCopy ? "copy" : "log" }

    private func broken(_ breach: AuditVerification.Breach) -> String {
        guard breach.fault != .foreignKey else { return "The \(thing) cannot be verified: \(breach.explanation)" }
        let place = breach.row.map { " at row \($0)" } ?? ""
        return
            "The \(thing) is broken\(place): \(breach.explanation) (\(breach.fault.rawValue); \(result.rows.counted("row")) before it fit)"
    }

    private var intact: String {
        let pruned = result.prunedTo > 0 ? "; rows up to \(result.prunedTo) were removed by retention" : ""
        let last = result.isCopy ? result.lastRow.map { ", the last one is row \($0)" } ?? "" : ""
        return "The \(thing) is intact: \(result.rows.counted("row"))\(last)\(pruned)."
    }

    private var notes: [String] {
        [coverNote, lossNote, headNote, logNote, anchorNote].compactMap(\.self)
    }

    private var coverNote: String? {
        "That covers events. Uses and requests (token_use and token_requests) are in no chain, so a change of them is not found."
    }

    private var lossNote: String? {
        guard let lostTo = result.lostTo, let lostAt = result.lostAt else { return nil }
        let rows = lostTo > 0 ? "rows up to \(lostTo) are lost" : "what it held is lost"
        return "But its database was gone at \(lostAt), and it was started again: \(rows)."
    }

    private func row(_ source: AuditMark.Source) -> AuditVerification.NamedRow? {
        result.compared.first { $0.source == source }
    }

    /// A log itself is compared with its head file always.
    private var headNote: String? {
        if row(.argument)?.isCompared == true { return "It holds the row that --head names." }
        guard result.isCopy, row(.head) == nil else { return nil }
        return
            "It has no head file, so it cannot be told whether rows were cut off its end. Name a row that it has to hold with "
            + "--head ID:HASH."
    }

    private var logNote: String? {
        guard let head = row(.logHead) else { return nil }
        return head.isCompared
            ? "It holds the newest row that the head file of the log names, \(head.row)."
            : "The log itself has gone on to row \(head.row)."
    }

    private var anchorNote: String? {
        guard let anchor else { return nil }
        let name = "the anchor (\(LogText.clean(anchor.name)))"
        if let anchorFailure { return "It was not compared with \(name): \(LogText.clean(anchorFailure))" }
        guard let named = row(.anchor) else {
            return anchor.isReadable
                ? "It was not compared with \(name), which is empty."
                : "It was not compared with \(name), which cannot be read from here: name its newest row with --head ID:HASH."
        }
        return named.isCompared
            ? "It holds the newest row that was sent to \(name), \(named.row)."
            : "The newest row that was sent to \(name) is \(named.row), which is not in it."
    }
}

/// What `audit verify --all` found.
private struct SharedVerification: Encodable {
    struct Chain: Encodable {
        /// The host of the gateway.
        let gateway: String?
        let chain: String
        let verification: AuditVerification

        func encode(to encoder: any Encoder) throws {
            try verification.encode(to: encoder)
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(gateway, forKey: .gateway)
            try container.encode(chain, forKey: .chain)
        }

        private enum Key: CodingKey { case gateway, chain }

        fileprivate var hasForeignKey: Bool { verification.breach?.fault == .foreignKey }
    }

    private(set) var chains: [Chain] = []

    /// - Returns: A line for people.
    mutating func add(_ chain: SharedAuditChain, _ result: AuditVerification) -> String {
        chains.append(Chain(gateway: chain.gateway, chain: chain.name, verification: result))
        let gateway = LogText.clean(chain.gateway ?? "-").padding(to: 16)
        return "\(gateway)  \(LogText.clean(chain.name).padding(to: 16))  \(Self.words(for: result))\n"
    }

    /// nil when all of them are intact.
    var failure: CommandFailure? {
        let foreign = chains.count { $0.hasForeignKey }
        let broken = chains.count { !$0.verification.isIntact } - foreign
        if broken > 0 { return CommandFailure(.verification, "\(of(broken)) broken") }
        guard foreign > 0 else { return nil }
        return CommandFailure(.failed, "\(of(foreign)) of another key; verify with --key FILE")
    }

    private func of(_ count: Int) -> String {
        "\(count) of \(chains.count) \(chains.count == 1 ? "chain" : "chains") \(count == 1 ? "is" : "are")"
    }

    private static func words(for result: AuditVerification) -> String {
        if let breach = result.breach {
            let words = LogText.clean(breach.explanation)
            if breach.fault == .foreignKey { return "other key  \(words)" }
            return "broken     \(words) (\(breach.fault.rawValue); \(result.rows.counted("row")) before it fit)"
        }
        let pruned = result.prunedTo > 0 ? "; rows up to \(result.prunedTo) were removed by retention" : ""
        let loss = result.lostTo.map { $0 > 0 ? "; rows up to \($0) were lost with their database" : "" } ?? ""
        return "intact     \(result.rows) \(result.rows == 1 ? "row" : "rows")\(pruned)\(loss)"
    }
}
