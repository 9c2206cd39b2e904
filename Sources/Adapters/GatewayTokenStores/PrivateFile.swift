import Foundation

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// Files that only their owner may read.
enum PrivateFile {
    struct Failure: Error {
        let reason: String

        init(_ reason: String) { self.reason = reason }

        init(code: Int32) { reason = unsafe String(cString: strerror(code)).lowercased() }
    }

    /// Device and inode: tells whether a path still names the file that was opened.
    struct Identity: Hashable, Sendable {
        let device: UInt64
        let inode: UInt64

        init?(path: String) {
            var information = stat()
            guard unsafe stat(path, &information) == 0 else { return nil }
            device = UInt64(truncatingIfNeeded: information.st_dev)
            inode = UInt64(truncatingIfNeeded: information.st_ino)
        }
    }

    /// Creates the directories above `path` that are missing, with mode 0700.
    static func createDirectory(of path: String) throws(Failure) {
        let folder = (path as NSString).deletingLastPathComponent
        guard !folder.isEmpty, !FileManager.default.fileExists(atPath: folder) else { return }
        do {
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw Failure("the directory \(folder) cannot be created; check its owner and mode")
        }
    }

    /// Makes sure that a file is there and that nobody but its owner may read it.
    static func ensure(_ path: String) throws(Failure) {
        let file = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw opening(errno) }
        defer { close(file) }
        guard fchmod(file, 0o600) == 0 else { throw Failure(code: errno) }
    }

    /// Creates `path` with `content`, whole or not at all; does nothing when the file exists already.
    static func createAtomically(_ path: String, content: [UInt8]) throws(Failure) {
        let temporary = "\(path).\(UUID().uuidString).new"
        let file = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw opening(errno) }
        defer { unsafe unlink(temporary) }
        let handle = FileHandle(fileDescriptor: file, closeOnDealloc: true)
        do {
            try handle.write(contentsOf: Data(content))
            try handle.synchronize()
            try handle.close()
        } catch {
            throw Failure("it cannot be written; is the disk full?")
        }
        guard unsafe link(temporary, path) == 0 || errno == EEXIST else { throw Failure(code: errno) }
        try synchronizeDirectory(of: path)
    }

    /// Whether a file of this name is what a crash has left of ``createAtomically(_:content:)`` of another.
    static func isTemporary(_ name: String, of other: String) -> Bool {
        guard name.hasPrefix(other + "."), name.hasSuffix(".new") else { return false }
        return UUID(uuidString: String(name.dropFirst(other.count + 1).dropLast(4))) != nil
    }

    /// Removes a file, and nothing that is another thing than a file.
    ///
    /// - Returns: Whether it is gone.
    static func remove(_ path: String) -> Bool { unsafe unlink(path) == 0 }

    /// Puts `other` in the place of `path`; after a crash it is the one or the other.
    static func replace(_ path: String, by other: String) throws(Failure) {
        guard unsafe rename(other, path) == 0 else { throw Failure(code: errno) }
        try synchronizeDirectory(of: path)
    }

    /// - Returns: nil when there is no file.
    static func readSecret(_ path: String, limit: Int) throws(Failure) -> [UInt8]? {
        let file = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard file >= 0 else {
            if errno == ENOENT { return nil }
            throw opening(errno)
        }
        let handle = FileHandle(fileDescriptor: file, closeOnDealloc: true)
        var information = stat()
        guard unsafe fstat(file, &information) == 0 else { throw Failure(code: errno) }
        guard information.st_mode & S_IFMT == S_IFREG else { throw Failure("it is not a regular file") }
        guard information.st_uid == geteuid() else { throw Failure("it belongs to another user") }
        guard information.st_mode & 0o077 == 0 else {
            throw Failure("others may read or write it; correct that with `chmod 600 \(path)`")
        }
        do {
            return Array(try handle.read(upToCount: limit) ?? Data())
        } catch {
            throw Failure("it cannot be read")
        }
    }

    /// Returns when the names in the folder of `path` are on the disk.
    static func synchronizeDirectory(of path: String) throws(Failure) {
        let folder = (path as NSString).deletingLastPathComponent
        let directory = unsafe open(folder.isEmpty ? "." : folder, O_RDONLY | O_CLOEXEC)
        guard directory >= 0 else { throw unsynchronized(folder, errno) }
        defer { close(directory) }
        guard fsync(directory) == 0 else { throw unsynchronized(folder, errno) }
    }

    private static func unsynchronized(_ folder: String, _ code: Int32) -> Failure {
        Failure(
            "the directory \(folder.isEmpty ? "." : folder) cannot be written to the disk: \(Failure(code: code).reason)"
        )
    }

    private static func opening(_ code: Int32) -> Failure {
        code == ELOOP ? Failure("it is a symbolic link; name the file itself") : Failure(code: code)
    }
}
