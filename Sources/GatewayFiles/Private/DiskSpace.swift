#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

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
