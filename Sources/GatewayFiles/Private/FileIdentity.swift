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

    /// What access(2) says of writing to a file or a folder; nil when this user may.
    package static func writeProblem(_ path: String) -> String? {
        unsafe access(path, W_OK) == 0 ? nil : SystemError.text()
    }

    static func of(_ path: String) -> stat? {
        var status = stat()
        return unsafe stat(path, &status) == 0 ? status : nil
    }
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
