import GatewayCore

/// For what begins nothing that has to be recorded: the log belongs to the gateway that may be running.
struct NoAuditLog: AuditLog {
    func record(_ event: TokenEvent) async throws(AuditError) {}
    func recordSoon(_ event: TokenEvent) async -> AuditError? { nil }
    func count(_ use: TokenUse) {}
    func keep(_ requests: [RequestUse]) -> Int { 0 }
}
