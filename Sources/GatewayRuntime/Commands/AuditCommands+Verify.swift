import GatewayAudit
import GatewayCore
import GatewayFiles
import GatewayTokenStores

extension AuditCommands {
    /// What an operator has beside the configuration.
    package struct Proof: Sendable {
        /// `ID:HASH`: a row that the log has to hold.
        package var head: String?
        /// The file of the installation key, in the place of the configuration's.
        package var key: String?

        package init(head: String? = nil, key: String? = nil) {
            self.head = head
            self.key = key
        }
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

    /// - Throws: ``ExitStatus/verification`` when the log was tampered with, ``ExitStatus/failed`` when something cannot be said.
    package func verify(_ proof: Proof = Proof()) async throws(CommandFailure) -> String {
        let row = try self.row(proof.head)
        let settings: OperatorSettings? = proof.key == nil ? try configured() : self.settings
        let key = try self.key(proof.key, settings)
        if settings?.problem != nil {
            Console.writeError(
                "Heads that audit.anchor has kept were not compared: the configuration cannot be read.\n"
            )
        }
        let sink = settings?.plan.audit.anchor.map { AnchorSink($0) }
        var evidence = AuditEvidence()
        evidence.isCopy = isCopy(settings)
        evidence.log = evidence.isCopy ? settings?.plan.audit.path : nil
        evidence.row = row
        var anchorFailure: String?
        // Before the rows, which may have gone on when they are read.
        do throws(AuditError) {
            evidence.anchor = try await sink?.heads() ?? []
        } catch {
            anchorFailure = error.reason
        }
        let result: AuditVerification
        do {
            result = try await AuditReader(path: path).verify(keys: AuditKeys(key), evidence: evidence)
        } catch {
            throw CommandFailure(.failed, error.reason)
        }
        let words = VerificationText(result: result, anchor: sink?.plan, anchorFailure: anchorFailure)
        let report = Report(verification: result, anchorFailure: anchorFailure)
        let text = style.asJSON ? try JSONText.pretty(report) : words.text
        guard let status = words.failure else { return text }
        if style.asJSON { Console.write(text) }
        throw CommandFailure(status, style.asJSON ? "" : String(text.dropLast()))
    }

    private func row(_ head: String?) throws(CommandFailure) -> (id: Int64, hash: String)? {
        guard let head else { return nil }
        guard let row = AnchoredHead.row(head) else {
            let advice = "write the number of a row, a colon and its hash of 64 hexadecimal digits"
            throw CommandFailure(.usage, "cannot read --head \"\(LogText.clean(head))\"; \(advice)")
        }
        return row
    }

    private func key(_ path: String?, _ settings: OperatorSettings?) throws(CommandFailure) -> InstallationKey {
        if let path { return try Self.key(at: path) }
        let settings = if let settings { settings } else { try configured() }
        return try settings.installationKey()
    }

    static func key(at path: String) throws(CommandFailure) -> InstallationKey {
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
    private func isCopy(_ settings: OperatorSettings?) -> Bool {
        guard let log = settings?.plan.audit.path else { return true }
        return path != log && (FileIdentity(path) != FileIdentity(log) || FileIdentity(path) == nil)
    }
}

/// What `audit verify` says to people.
struct VerificationText {
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
            "The \(thing) is broken\(place): \(breach.explanation) (\(breach.fault.rawValue); \(result.rows) rows before it fit)"
    }

    private var intact: String {
        let pruned = result.prunedTo > 0 ? "; rows up to \(result.prunedTo) were removed by retention" : ""
        let last = result.isCopy ? result.lastRow.map { ", the last one is row \($0)" } ?? "" : ""
        return "The \(thing) is intact: \(result.rows) rows\(last)\(pruned)."
    }

    private var notes: [String] {
        [lossNote, headNote, logNote, anchorNote].compactMap(\.self)
    }

    private var lossNote: String? {
        guard let lostTo = result.lostTo, let lostAt = result.lostAt else { return nil }
        let rows = lostTo > 0 ? "rows up to \(lostTo) are lost" : "what it held is lost"
        return "But its database was gone at \(lostAt), and it was begun anew: \(rows)."
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
