#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// A file of any size, read or copied piece by piece.
package enum CopiedFile {
    private static let pieceBytes = 1 << 20

    /// Copies a file to `target`, which must not exist, with mode 0600. The copy is on the disk when this returns.
    ///
    /// - Parameter look: Is given each piece.
    package static func copy(
        _ source: String,
        to target: String,
        _ look: ([UInt8]) -> Void
    ) throws(PrivateFile.Failure) {
        try PrivateFile.createNew(target, content: [])
        let output = unsafe open(target, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
        guard output >= 0 else { throw PrivateFile.Failure(code: errno) }
        defer { close(output) }
        try readPieces(source) { (piece) throws(PrivateFile.Failure) in
            look(piece)
            guard Descriptor.writeAll(piece, to: output) else { throw PrivateFile.Failure(code: errno) }
        }
        guard fsync(output) == 0 else { throw PrivateFile.Failure(code: errno) }
    }

    /// Does not wait for what is not a regular file, such as a pipe, and follows no symbolic link.
    package static func readPieces(
        _ path: String,
        _ take: ([UInt8]) throws(PrivateFile.Failure) -> Void
    ) throws(PrivateFile.Failure) {
        let input = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard input >= 0 else { throw PrivateFile.Failure(code: errno) }
        defer { close(input) }
        var status = stat()
        guard unsafe fstat(input, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw PrivateFile.Failure("it is not a regular file")
        }
        var buffer = [UInt8](repeating: 0, count: pieceBytes)
        while true {
            let count = unsafe systemRead(input, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw PrivateFile.Failure(code: errno) }
            guard count > 0 else { return }
            try take(Array(buffer[..<count]))
        }
    }
}
