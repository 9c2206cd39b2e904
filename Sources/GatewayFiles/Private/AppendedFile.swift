#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// A file that lines are added to, and that may only allow that (`chattr +a`).
package enum AppendedFile {
    /// Adds a line behind the last one; a torn last line, as a full disk leaves it, is ended first.
    ///
    /// The folder has to be there: a folder that is made where a disk should be mounted would hide that it is not.
    ///
    /// - Parameter limit: A file of at least this size in bytes is first renamed to ``older(_:)``, where its folder permits that.
    package static func add(_ line: String, to path: String, limit: Int64) throws(PrivateFile.Failure) {
        if let size = FileStatus.of(path).map({ Int64($0.st_size) }), size >= limit {
            _ = unsafe rename(path, older(path))
        }
        let flags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
        let file = unsafe open(path, flags, 0o600)
        guard file >= 0 else { throw PrivateFile.Failure(code: errno) }
        defer { close(file) }
        var status = stat()
        guard unsafe fstat(file, &status) == 0 else { throw PrivateFile.Failure(code: errno) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw PrivateFile.Failure("it is not a regular file") }
        let start = endsWithLine(file, size: status.st_size) ? "" : "\n"
        guard Descriptor.writeAll(Array("\(start)\(line)\n".utf8), to: file) else {
            throw PrivateFile.Failure(code: errno)
        }
    }

    /// Where the lines are that were written before those at `path`.
    package static func older(_ path: String) -> String { "\(path).old" }

    /// The last bytes of the file, which may begin within a line. Empty when there is no file.
    package static func end(of path: String, limit: Int) throws(PrivateFile.Failure) -> [UInt8] {
        let file = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else {
            if errno == ENOENT { return [] }
            throw PrivateFile.Failure(code: errno)
        }
        defer { close(file) }
        var status = stat()
        guard unsafe fstat(file, &status) == 0 else { throw PrivateFile.Failure(code: errno) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw PrivateFile.Failure("it is not a regular file") }
        var bytes = [UInt8](repeating: 0, count: min(limit, Int(status.st_size)))
        let start = Int(status.st_size) - bytes.count
        var read = 0
        while read < bytes.count {
            let count = unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe pread(file, buffer.baseAddress?.advanced(by: read), buffer.count - read, off_t(start + read))
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw PrivateFile.Failure(code: errno) }
            // Shorter than it was.
            if count == 0 { break }
            read += count
        }
        return Array(bytes.prefix(read))
    }

    private static func endsWithLine(_ file: Int32, size: off_t) -> Bool {
        guard size > 0 else { return true }
        var last: UInt8 = 0
        return unsafe pread(file, &last, 1, size - 1) == 1 && last == 0x0A
    }
}
