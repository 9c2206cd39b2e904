import GRDB
import GatewayCore

/// Why SQLite could not do its work, in words for the person who has to act.
///
/// Neither the statement nor SQLite's own message is repeated: they may hold values.
func auditError(_ error: any Error, file path: String) -> AuditError {
    if let error = error as? AuditError { return error }
    guard let error = error as? DatabaseError else { return AuditError("the audit log \(path) cannot be used") }
    let code = error.extendedResultCode.rawValue
    let reason =
        switch error.resultCode {
        case .SQLITE_FULL:
            "the disk that holds the audit log \(path) is full; free some space"
        case .SQLITE_IOERR:
            "the disk that holds the audit log \(path) reports an I/O error (SQLite \(code)); check the disk"
        case .SQLITE_READONLY:
            "the audit log \(path) is read-only; check the owner and the mode of the file and its directory"
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            "another program holds the audit log \(path) locked; close it"
        case .SQLITE_CANTOPEN, .SQLITE_PERM, .SQLITE_AUTH:
            "the audit log \(path) cannot be opened; check that it exists and that this user may read it"
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            "the audit log \(path) is not a sound SQLite database; restore it from a backup or move it away"
        case .SQLITE_CONSTRAINT:
            "the audit log \(path) refuses the row (SQLite \(code)); another program writes to it"
        default:
            "the audit log \(path) cannot be used (SQLite \(code))"
        }
    return AuditError(reason)
}
