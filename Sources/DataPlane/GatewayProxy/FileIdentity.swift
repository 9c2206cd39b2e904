#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Tells a file from what was at its path before: replaced, or written anew.
package struct FileIdentity: Hashable, Sendable {
    private let device: UInt64
    private let inode: UInt64
    private let size: Int64
    private let modified: [Int]
    private let changed: [Int]

    /// Follows symbolic links; nil when there is nothing.
    package init?(_ path: String) {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        device = UInt64(truncatingIfNeeded: status.st_dev)
        inode = UInt64(truncatingIfNeeded: status.st_ino)
        size = Int64(status.st_size)
        #if canImport(Glibc)
            modified = [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
            changed = [status.st_ctim.tv_sec, status.st_ctim.tv_nsec]
        #else
            modified = [status.st_mtimespec.tv_sec, status.st_mtimespec.tv_nsec]
            changed = [status.st_ctimespec.tv_sec, status.st_ctimespec.tv_nsec]
        #endif
    }
}
