import GatewayCore

/// A statement about the client that another program keeps in a file, and replaces there before it ends: the token of a
/// Kubernetes service account, or of a workload identity (RFC 7521 §4.2).
struct AssertionFile: Hashable, Sendable {
    /// Absolute.
    let path: String

    /// Reads `assertion: {file: PATH}`. nil after a mistake.
    init?(in fields: ConfigFields) {
        fields.hideUnlessMapping("assertion")
        if !fields.has("assertion") { fields.missing("assertion") }
        guard let own = fields.fields("assertion") else { return nil }
        defer { own.refuseUnknownKeys() }
        own.explain(SharedMeanings.assertion)
        guard let path = own.requiredFilePath("file") else { return nil }
        self.path = path
    }
}
