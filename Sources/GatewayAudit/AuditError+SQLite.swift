import GatewayCore
import GatewayFiles

func auditError(_ error: any Error, file path: String) -> AuditError {
    error as? AuditError ?? AuditError(SQLiteFile.words(for: error, file: "the audit log \(path)", path: path))
}
