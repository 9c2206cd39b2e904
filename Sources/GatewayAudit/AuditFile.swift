package import GatewayEvents
import GatewayFiles
package import GatewayHTTP

/// The rows up to this one were lost with the database that held them.
package struct AuditLoss: Hashable, Sendable {
    package let lostTo: Int64
    package let at: UnixTime
}

/// Which file the log is, so that it shows when another one has taken its place, or none.
struct AuditFile: Sendable {
    enum Place {
        case inPlace
        case missing
        /// Something is there that this log did not open.
        case replaced
    }

    let path: String
    private var identity: FileIdentity?
    /// A file that was made to take the lost one's place, as long as nothing is in it.
    private var candidate: FileIdentity?
    /// Keeps other gateways off a file that was made while this one runs.
    private var lock: FileLock?

    /// - Parameter path: The file is there, and locked by the caller.
    init(path: String) {
        self.path = path
        identity = FileIdentity(path)
    }

    var place: Place {
        guard let found = FileIdentity(path) else { return .missing }
        if found == identity { return .inPlace }
        return found == candidate || FileStatus.size(of: path) == 0 ? .missing : .replaced
    }

    /// Makes a file where none is, and keeps other gateways off it.
    mutating func makeCandidate() throws(AuditError) {
        do throws(PrivateFile.Failure) {
            try PrivateFile.ensure(path, keepsMode: true)
        } catch {
            throw AuditError("the audit log \(path) is gone, and a new one cannot be made: \(error.reason)")
        }
        candidate = FileIdentity(path)
        guard lock == nil || lock?.identity != candidate else { return }
        do throws(FileLock.Failure) {
            lock = try FileLock(path)
        } catch {
            throw AuditError("the audit log \(path) is gone, and another gateway uses what is there now; stop it")
        }
    }

    mutating func acceptCandidate() {
        identity = candidate
        candidate = nil
    }

    /// SQLite takes a folder for a broken disk, and waits for the other end of a pipe.
    static func requireRegular(_ path: String) throws(AuditError) {
        guard let kind = FileStatus.irregular(path) else { return }
        throw AuditError("\(path) is \(kind), not an audit log: name the database file, such as audit.sqlite")
    }

    /// Why no log is begun where there was one.
    ///
    /// - Parameter row: The last row that the head file names.
    static func loss(of path: String, to row: Int64, keyPath: String?) -> String {
        "the audit log \(path) is gone or empty, although its head file names row \(row); "
            + remedy(of: path, keyPath: keyPath)
    }

    /// What helps when the file is gone. It depends on what is gone beside it.
    ///
    /// - Parameter keyPath: The installation key; nil when it is no file.
    static func remedy(of path: String, keyPath: String?) -> String {
        if let keyPath, FileIdentity(keyPath) == nil {
            return "so is the installation key \(keyPath). If they were moved, move them back. If they are lost, "
                + "restart the gateway with an empty state directory: tokens and logins are lost, too"
        }
        let moved = "if it was moved, move it back with its -wal file. If it is lost, "
        guard FileIdentity(AuditHead.path(for: path)) != nil else {
            return moved + "restart the gateway, which starts a new log. Its head file is gone, too, so the new log "
                + "does not record the loss"
        }
        return moved + "set audit.on_missing: recreate and restart the gateway, which starts a new log. Its first "
            + "event records the loss"
    }
}

extension AuditError {
    package static let tookTooLong = AuditError("the question took too long; ask for a shorter period")

    /// Why SQLite could not do something with the log, in words for the person who has to act.
    init(_ error: any Error, file path: String) {
        self =
            error as? AuditError
            ?? AuditError(
                SQLiteFile.words(
                    for: error,
                    file: "the audit log \(path)",
                    path: path,
                    ifDamaged:
                        "restore it from a backup, or stop the gateway, move it away with its -wal and -shm files, "
                        + "set audit.on_missing: recreate and start the gateway, which then starts a new log"
                )
            )
    }
}
