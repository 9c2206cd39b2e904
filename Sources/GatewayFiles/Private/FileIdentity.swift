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

/// The same, and what was in it: tells also whether it was written anew.
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

/// What stat(2) says.
package enum FileStatus {
    /// The user that what is there belongs to; nil when nothing is.
    package static func owner(of path: String) -> UInt32? { of(path)?.st_uid }

    /// In bytes; nil when nothing is there.
    package static func size(of path: String) -> Int? { of(path).map { Int($0.st_size) } }

    static func of(_ path: String) -> stat? {
        var status = stat()
        return unsafe stat(path, &status) == 0 ? status : nil
    }
}
