#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// A whole small file in memory, read without trusting what is at its path.
package struct BoundedFile: Sendable {
    package let bytes: [UInt8]
    /// Permission bits only.
    package let mode: UInt32
    package let owner: UInt32

    /// Why a file was not read. Many callers treat a missing file as empty.
    package enum Failure: Error, Equatable {
        case missing
        case forbidden
        case notRegular
        case tooLarge
        case other(Int32)

        /// For a message that names the path itself.
        package var message: String {
            switch self {
            case .missing: "no such file"
            case .forbidden: "this user may not read it"
            case .notRegular: "not a regular file"
            case .tooLarge: "too large"
            case .other(let code): SystemError.text(code)
            }
        }
    }

    /// Does not wait: what is not a regular file, such as a pipe without a writer, is refused.
    package static func read(_ path: String, limit: Int, followsLinks: Bool = true) throws(Failure) -> BoundedFile {
        let flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (followsLinks ? 0 : O_NOFOLLOW)
        let descriptor = unsafe open(path, flags)
        guard descriptor >= 0 else { throw failure(errno) }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw failure(errno) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .notRegular }
        guard status.st_size <= limit else { throw .tooLarge }
        let bytes = try contents(descriptor, limit: limit)
        return BoundedFile(bytes: bytes, mode: UInt32(status.st_mode & 0o777), owner: status.st_uid)
    }

    /// The file may grow while it is read, so the limit is checked again.
    private static func contents(_ descriptor: Int32, limit: Int) throws(Failure) -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            let count = unsafe systemRead(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(errno) }
            guard count > 0 else { return bytes }
            bytes.append(contentsOf: chunk[..<count])
            guard bytes.count <= limit else { throw .tooLarge }
        }
    }

    private static func failure(_ code: Int32) -> Failure {
        switch code {
        case ENOENT, ENOTDIR: .missing
        case EACCES, EPERM: .forbidden
        default: .other(code)
        }
    }
}

/// read(2), whose name ``BoundedFile`` has for itself.
func systemRead(_ descriptor: Int32, _ buffer: UnsafeMutableRawPointer, _ count: Int) -> Int {
    unsafe read(descriptor, buffer, count)
}

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
