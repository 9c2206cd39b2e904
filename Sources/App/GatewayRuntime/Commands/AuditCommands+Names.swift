import Foundation
import GatewayAudit
import GatewayCore

/// Names in filters: those of the configuration, and those that the log has. What was removed from the configuration is still in
/// the log.
extension AuditCommands {
    /// - Parameter mayBeMissing: Whether a log that is not there yet is one without names.
    func requireKnownNames(_ filter: Filter, mayBeMissing: Bool = false) async throws(CommandFailure) {
        let names = settings?.plan.names ?? ConfiguredNames()
        try await requireKnown(filter.route, .route, names.routes, mayBeMissing)
        try await requireKnown(filter.client, .client, names.clients, mayBeMissing)
        try await requireKnown(filter.credential, .credential, names.credentials, mayBeMissing)
    }

    private func requireKnown(
        _ name: String?,
        _ kind: AuditUsage.Grouping,
        _ configured: [String],
        _ mayBeMissing: Bool
    ) async throws(CommandFailure) {
        guard let name else { return }
        // A subject is no name of the configuration: there may be no event of it so far.
        let base = kind == .credential ? UnknownName.base(ofCredential: name) : name
        if configured.contains(name) || configured.contains(base) { return }
        let logged = try await loggedNames(kind, mayBeMissing)
        if logged.contains(where: { kind == .credential && UnknownName.base(ofCredential: $0) == base }) { return }
        let place = settings == nil ? "the log" : "the configuration or the log"
        let message = UnknownName.message(name, kind: kind.rawValue, in: place, known: configured + logged)
        if let message { throw CommandFailure(.usage, message) }
    }

    private func loggedNames(_ kind: AuditUsage.Grouping, _ mayBeMissing: Bool) async throws(CommandFailure) -> [String]
    {
        if mayBeMissing, !FileManager.default.fileExists(atPath: path) { return [] }
        do throws(AuditError) {
            return try await AuditReader(path: path).names(in: kind)
        } catch {
            throw CommandFailure(.failed, error.reason)
        }
    }

    func event(_ name: String?) throws(CommandFailure) -> TokenEvent.Name? {
        guard let name else { return nil }
        let known = TokenEvent.Name.allCases.map(\.rawValue)
        if let message = UnknownName.message(name, kind: "event", in: "this version", known: known) {
            throw CommandFailure(.usage, message)
        }
        return TokenEvent.Name(rawValue: name)
    }
}
