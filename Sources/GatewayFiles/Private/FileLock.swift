#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// The right to use a file, which one holder has at a time, whatever path leads to the file.
///
/// The lock is the kernel's: it ends with the process, however that ends. It covers one byte far behind the end of every
/// file, so it never meets the locks of SQLite. Close what uses the file first: SQLite's own locks end when any descriptor
/// of the file is closed (fcntl(2)).
package final class FileLock: Sendable {
    /// Callers say who could hold the lock, and what to do about it.
    package enum Failure: Error, Equatable {
        case held
        case other(Int32)
    }

    package let identity: FileIdentity
    private let descriptor: Int32

    /// - Parameter path: A file that is there and that this user may write to.
    package init(_ path: String) throws(Failure) {
        let file = unsafe open(path, O_RDWR | O_CLOEXEC)
        guard file >= 0 else { throw .other(errno) }
        do throws(Failure) {
            try Self.lock(file)
            var status = stat()
            guard unsafe fstat(file, &status) == 0 else { throw .other(errno) }
            identity = FileIdentity(status)
        } catch {
            close(file)
            throw error
        }
        descriptor = file
    }

    deinit { close(descriptor) }

    private static func lock(_ descriptor: Int32) throws(Failure) {
        var range = flock()
        range.l_type = Int16(F_WRLCK)
        range.l_whence = Int16(SEEK_SET)
        range.l_start = 1 << 62
        range.l_len = 1
        guard unsafe fcntl(descriptor, setOpenFileLock, &range) != 0 else { return }
        throw errno == EAGAIN || errno == EACCES ? .held : .other(errno)
    }

    /// F_OFD_SETLK, which the headers that Swift sees do not show.
    #if canImport(Darwin)
        private static let setOpenFileLock: Int32 = 90
    #else
        private static let setOpenFileLock: Int32 = 37
    #endif
}
