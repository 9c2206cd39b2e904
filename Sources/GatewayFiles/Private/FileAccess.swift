#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// What may be done with a file, found out without doing it.
package enum FileAccess {
    /// What access(2) says of writing to a file or a folder; nil when this user may.
    package static func writeProblem(_ path: String) -> String? {
        unsafe access(path, W_OK) == 0 ? nil : SystemError.text()
    }

    /// The permission bits, and whether it is a folder; nil when nothing is there.
    package static func mode(of path: String) -> (bits: UInt32, isFolder: Bool)? {
        FileStatus.of(path).map { (UInt32($0.st_mode & 0o777), $0.st_mode & S_IFMT == S_IFDIR) }
    }

    /// Bytes that this user may still write to the file system of `path`; nil when that cannot be told.
    package static func freeBytes(at path: String) -> Int? {
        var system = statvfs()
        guard unsafe statvfs(path, &system) == 0 else { return nil }
        let (bytes, overflow) = Int(clamping: system.f_bavail).multipliedReportingOverflow(
            by: Int(clamping: system.f_frsize)
        )
        return overflow ? .max : bytes
    }
}
