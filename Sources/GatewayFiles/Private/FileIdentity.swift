import GatewayHTTP

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// Which file a path names: tells whether another one has taken its place.
package struct FileIdentity: Hashable, Sendable {
    private let device: UInt64
    private let inode: UInt64

    /// Follows symbolic links; nil when there is nothing.
    package init?(_ path: String) {
        guard let status = FileStatus.of(path) else { return nil }
        self.init(status)
    }

    init(_ status: stat) {
        device = UInt64(truncatingIfNeeded: status.st_dev)
        inode = UInt64(truncatingIfNeeded: status.st_ino)
    }
}

/// Which file a path names and which version of its content: tells also whether it was written anew.
package struct FileVersion: Hashable, Sendable {
    private let identity: FileIdentity
    private let size: Int64
    private let modified: [Int]
    private let changed: [Int]

    /// Follows symbolic links; nil when there is nothing.
    package init?(_ path: String) {
        guard let status = FileStatus.of(path) else { return nil }
        identity = FileIdentity(status)
        size = Int64(status.st_size)
        #if canImport(Darwin)
            modified = [status.st_mtimespec.tv_sec, status.st_mtimespec.tv_nsec]
            changed = [status.st_ctimespec.tv_sec, status.st_ctimespec.tv_nsec]
        #else
            modified = [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
            changed = [status.st_ctim.tv_sec, status.st_ctim.tv_nsec]
        #endif
    }
}

/// What the system says of the file or folder at a path.
package enum FileStatus {
    /// The user that what is there belongs to; nil when nothing is.
    package static func owner(of path: String) -> UInt32? { of(path)?.st_uid }

    /// In bytes; nil when nothing is there.
    package static func size(of path: String) -> Int? { of(path).map { Int($0.st_size) } }

    /// The permission bits, and whether it is a folder; nil when nothing is there.
    package static func mode(of path: String) -> (bits: UInt32, isFolder: Bool)? {
        of(path).map { (UInt32($0.st_mode & 0o777), $0.st_mode & S_IFMT == S_IFDIR) }
    }

    /// What is there, in words, if it is no regular file; nil for one, and when nothing is there.
    package static func irregular(_ path: String) -> String? {
        switch of(path).map({ $0.st_mode & S_IFMT }) {
        case nil, S_IFREG: nil
        case S_IFDIR: "a folder"
        case S_IFIFO: "a pipe"
        case S_IFSOCK: "a socket"
        default: "a device"
        }
    }

    /// What access(2) says of writing to a file or a folder; nil when this user may.
    package static func writeProblem(_ path: String) -> String? {
        unsafe access(path, W_OK) == 0 ? nil : SystemError.text()
    }

    /// Whether this user may not even learn if something is there.
    package static func isHidden(_ path: String) -> Bool {
        var status = stat()
        return unsafe stat(path, &status) != 0 && [EACCES, EPERM].contains(errno)
    }

    static func of(_ path: String) -> stat? {
        var status = stat()
        return unsafe stat(path, &status) == 0 ? status : nil
    }
}

/// What keeps this user from creating a file, or from writing to it.
package struct FileBarrier: Error, Hashable, Sendable {
    /// The file, or the nearest folder above it that is there.
    package let place: String
    /// Whether the place is a folder, in which nothing can be created.
    let isFolder: Bool
    /// Whether the place belongs to the user, so that its mode is what is wrong.
    let isOwn: Bool
    package let user: UInt32
    /// The number of the system's error.
    let code: Int32

    package init(place: String, isFolder: Bool, isOwn: Bool, user: UInt32, code: Int32) {
        self.place = place
        self.isFolder = isFolder
        self.isOwn = isOwn
        self.user = user
        self.code = code
    }

    /// Looks at a file that is to be created. Folders above it may be missing, because they are created, too; nil where nothing is in the way.
    package init?(toCreate path: String) {
        var folder = path
        var status = stat()
        repeat {
            let end = folder.lastIndex(of: "/")
            folder = end.map { $0 == folder.startIndex ? "/" : String(folder[..<$0]) } ?? "."
        } while unsafe stat(folder, &status) != 0 && errno == ENOENT && folder != "/" && folder != "."
        self.init(folder: folder)
    }

    /// Looks at a folder that is to be created in one that has to be there.
    package init?(toCreateFolder path: String) {
        let end = path.lastIndex(of: "/")
        let folder = end.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        self.init(folder: folder)
    }

    /// Looks at a file that is there.
    package init?(toWrite path: String) {
        guard unsafe access(path, R_OK | W_OK) != 0 else { return nil }
        self.init(path, isFolder: false, errno)
    }

    private init?(folder: String) {
        let isFile = FileStatus.mode(of: folder).map { !$0.isFolder } ?? false
        guard unsafe isFile || access(folder, W_OK | X_OK) != 0 else { return nil }
        self.init(folder, isFolder: true, isFile ? ENOTDIR : errno)
    }

    private init(_ place: String, isFolder: Bool, _ code: Int32) {
        let user = geteuid()
        let isOwn = FileStatus.owner(of: place) == user
        self.init(place: place, isFolder: isFolder, isOwn: isOwn, user: user, code: code)
    }

    /// For example `this user (uid 65534) cannot create files in /log`.
    package var text: String {
        let act = isFolder ? "create files in" : "write to"
        let reason = isForbidden ? "" : ": \(SystemError.text(code).lowercased())"
        return "this user (uid \(user)) cannot \(act) \(place)\(reason)"
    }

    /// What lets the user in; nil where no permission is missing.
    package var command: String? {
        guard isForbidden else { return nil }
        let place = ShellWord.quoted(place)
        return isOwn ? "chmod \(isFolder ? "u+rwx" : "u+rw") \(place)" : "chown \(user) \(place)"
    }

    /// ``text``, and what helps.
    package var advice: String {
        guard let command else { return text }
        return isOwn ? "\(text); run: \(command)" : "\(text); run as root: \(command)"
    }

    private var isForbidden: Bool { [EACCES, EPERM].contains(code) }
}

/// The room on the file system that holds a path.
package struct DiskSpace: Sendable {
    /// What this user may still fill.
    package let freeBytes: Int
    package let totalBytes: Int

    /// nil when the system does not tell.
    package init?(at path: String) {
        var status = statvfs()
        guard unsafe statvfs(path, &status) == 0 else { return nil }
        let block = Int(clamping: status.f_frsize)
        freeBytes = Self.product(Int(clamping: status.f_bavail), block)
        totalBytes = Self.product(Int(clamping: status.f_blocks), block)
    }

    private static func product(_ count: Int, _ size: Int) -> Int {
        let (bytes, overflows) = count.multipliedReportingOverflow(by: size)
        return overflows ? .max : bytes
    }
}
