import GRDB

/// Why SQLite could not do its work, in words for the person who has to act.
///
/// Neither the statement nor SQLite's own message is repeated: they may hold values.
func words(for error: any Error, file path: String) -> String {
    guard let error = error as? DatabaseError else { return "\(path) cannot be used" }
    let code = error.extendedResultCode.rawValue
    switch error.resultCode {
    case .SQLITE_FULL:
        return "the disk that holds \(path) is full; free some space"
    case .SQLITE_IOERR:
        return "the disk that holds \(path) reports an I/O error (SQLite \(code)); check the disk and the system log"
    case .SQLITE_READONLY:
        return "\(path) is read-only; check the owner and the mode of the file and its directory"
    case .SQLITE_BUSY, .SQLITE_LOCKED:
        return "another program holds \(path) locked; close it"
    case .SQLITE_CANTOPEN, .SQLITE_PERM, .SQLITE_AUTH:
        return "\(path) cannot be opened; check that its directory exists and belongs to the gateway's user"
    case .SQLITE_CORRUPT, .SQLITE_NOTADB:
        return "\(path) is not a sound SQLite database; restore it from a backup or move it away"
    default:
        return "\(path) cannot be used (SQLite \(code))"
    }
}
