package import GatewayFiles
package import GatewayHTTP
import Glibc

/// The directory of keys, tokens, the audit log and sockets, held by one gateway at a time.
///
/// The lock is the kernel's: it ends with the process, however that ends.
package final class StateDirectory: Sendable {
    package let path: String
    private let lock: Int32

    /// Creates the directory with mode 0700 when it is not there, and takes its lock.
    ///
    /// - Throws: ``StateError`` when it cannot be created, when others may write to it, or when another gateway holds it.
    package init(path: String) throws(StateError) {
        self.path = path
        try Self.create(path)
        try Self.checkOwnership(of: path)
        lock = try Self.acquireLock(in: path)
    }

    deinit { close(lock) }

    /// The file that has git ignore a state directory within a project. It is no part of the state.
    package static let gitIgnore = ".gitignore"

    package func file(_ name: String) -> String { "\(path)/\(name)" }

    package enum Occupation: Sendable {
        case free
        case held
        /// This user may not look.
        case hidden
    }

    /// Whether a process holds the lock of this directory.
    package static func occupation(of path: String) -> Occupation {
        let descriptor = unsafe open("\(path)/gateway.lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else {
            return switch errno {
            case ENOENT: .free
            case EACCES, EPERM: .hidden
            default: .held
            }
        }
        defer { close(descriptor) }
        // Shared, so that two who ask at once do not take each other for a gateway.
        return flock(descriptor, LOCK_SH | LOCK_NB) == 0 ? .free : .held
    }

    /// Whether a process holds the lock of this directory; also where that cannot be told.
    package static func isHeld(_ path: String) -> Bool { occupation(of: path) != .free }

    /// The process that holds the directory, as far as its lock file tells.
    package static func holder(of path: String) -> Int32? {
        StateFile.read("\(path)/gateway.lock").flatMap { Int32($0.filter(\.isNumber)) }
    }

    /// `git add` in a project would add its keys and tokens. A `.gitignore` that is there stays, and nothing fails where it cannot be
    /// written.
    static func hideFromGit(_ folder: String) {
        try? PrivateFile.create("\(folder)/\(gitIgnore)", content: Array("*\n".utf8))
    }

    /// Whether that file, which somebody else may have written, ignores everything.
    static func isHiddenFromGit(_ folder: String) -> Bool {
        let text = StateFile.read("\(folder)/\(gitIgnore)") ?? ""
        let lines = text.split(whereSeparator: \.isNewline)
        return lines.contains("*") && !lines.contains { $0.hasPrefix("!") }
    }

    private static func create(_ path: String) throws(StateError) {
        guard unsafe mkdir(path, 0o700) != 0 else { return hideFromGit(path) }
        guard errno != EEXIST else { return }
        let reason = SystemError.text()
        throw StateError(
            "cannot create the state directory \(path): \(reason); set state_directory to a writable place"
        )
    }

    private static func checkOwnership(of path: String) throws(StateError) {
        var status = stat()
        guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
            throw StateError("the state directory \(path) is not a directory")
        }
        guard status.st_mode & 0o022 == 0 else {
            throw StateError("others may write to the state directory \(path); run: chmod 700 \(path)")
        }
        guard status.st_uid == geteuid() else {
            throw StateError("the state directory \(path) belongs to another user; set state_directory to your own")
        }
    }

    private static func acquireLock(in path: String) throws(StateError) -> Int32 {
        let file = "\(path)/gateway.lock"
        let descriptor = unsafe open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw StateError("cannot open \(file): \(SystemError.text())") }
        guard isLocked(descriptor) else {
            let reason = errno
            close(descriptor)
            guard reason == EWOULDBLOCK else {
                throw StateError("cannot lock \(file): \(SystemError.text(reason))")
            }
            throw StateError(inUse(path))
        }
        ftruncate(descriptor, 0)
        _ = Descriptor.writeAll(Array("\(getpid())\n".utf8), to: descriptor)
        return descriptor
    }

    /// Tries for a moment: somebody may just look whether it is held.
    private static func isLocked(_ descriptor: Int32) -> Bool {
        for _ in 0..<5 {
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return true }
            guard errno == EWOULDBLOCK else { return false }
            _ = poll(nil, 0, 20)
        }
        errno = EWOULDBLOCK
        return false
    }

    private static func inUse(_ path: String) -> String {
        let process = holder(of: path).map { " (process \($0))" } ?? ""
        return
            "another gateway\(process) uses the state directory \(path); stop it, or set state_directory to another one"
    }
}

/// Small files of the state directory, which only the gateway's user may read.
package enum StateFile {
    /// Replaces the file at `path` whole: readers see the old content or the new one, also after a power failure.
    ///
    /// - Parameter lasts: Whether it is of use after a power failure. Otherwise the disk is not waited for.
    package static func write(
        _ content: String,
        to path: String,
        mode: UInt32 = 0o600,
        lasts: Bool = true
    ) throws(StateError) {
        PrivateFile.removeLeftovers(of: path)
        try StateError.explaining(
            "cannot write \(path)",
            try PrivateFile.replace(path, with: Array(content.utf8), mode: mode, lasts: lasts)
        )
        // As far as the file system can promise that the new name stays: by now it counts for everybody.
        if lasts { try? PrivateFile.synchronizeDirectory(of: path) }
    }

    /// nil when the file cannot be read.
    package static func read(_ path: String) -> String? {
        (try? BoundedFile.read(path, limit: 64 << 10)).flatMap { String(validating: $0.bytes, as: UTF8.self) }
    }
}

/// Says that a restore has begun to put files into their places. A directory that has it may lack some of them, and a gateway
/// would begin anew with what it has.
package enum RestoreMarker {
    private static func path(in stateDirectory: String) -> String { "\(stateDirectory)/restore.unfinished" }

    package static func set(in stateDirectory: String) throws(StateError) {
        try StateFile.write("", to: path(in: stateDirectory))
    }

    package static func remove(in stateDirectory: String) { _ = PrivateFile.remove(path(in: stateDirectory)) }

    static func requireNone(in stateDirectory: String) throws(StateError) {
        guard FileIdentity(path(in: stateDirectory)) != nil else { return }
        throw StateError(
            "a restore of the state directory \(stateDirectory) did not finish; repeat it with: authgateway state restore "
                + "DIR --replace"
        )
    }
}

/// The token that lets the commands of this machine's operator change something through the admin listener.
///
/// New at every start. A user who can read the state directory can read it.
package enum AdminToken {
    package static func path(in stateDirectory: String) -> String { "\(stateDirectory)/admin.token" }

    package static func create(in stateDirectory: String) throws(StateError) -> Secret {
        let token = Hexadecimal.random(bytes: 32)
        try StateFile.write(token + "\n", to: path(in: stateDirectory), lasts: false)
        return Secret(token)
    }

    /// For processes that hold the state directory and listen nowhere: it is of use only at that address.
    package static func remove(in stateDirectory: String) { _ = unsafe unlink(path(in: stateDirectory)) }

    /// nil when there is none, it may not be read, or the file holds something else: who owns the state directory may have put a link to
    /// any file there, and what is read is sent.
    package static func read(in stateDirectory: String) -> Secret? {
        guard let text = StateFile.read(path(in: stateDirectory)) else { return nil }
        let token = text.filter { !$0.isWhitespace }
        guard Hexadecimal.bytes(of: token)?.count == 32 else { return nil }
        return Secret(token)
    }
}
