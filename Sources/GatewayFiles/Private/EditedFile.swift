#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// A file of a person that a command reads, changes and puts back whole.
package struct EditedFile: Sendable {
    package let bytes: [UInt8]
    /// What a symbolic link leads to, and what is replaced.
    package let target: String
    private let version: FileVersion?

    package static func read(_ path: String, limit: Int) throws(BoundedFile.Failure) -> EditedFile {
        guard let resolved = unsafe realpath(path, nil) else { throw errno == EACCES ? .forbidden : .missing }
        defer { unsafe free(resolved) }
        let target = unsafe String(cString: resolved)
        // Before it is read: what is written in between is then a change.
        let version = FileVersion(target)
        let file = try BoundedFile.read(target, limit: limit)
        return EditedFile(bytes: file.bytes, target: target, version: version)
    }

    /// Readers see the old content or the new one, after a crash too. Mode and owner stay as they are. The lock is held from
    /// the comparison to the rename: of two commands at once, the second one finds the file changed. What a crash has left
    /// beside the file is removed.
    ///
    /// - Throws: Also when the file is another one than was read, or was written since.
    package func replace(with content: [UInt8]) throws(PrivateFile.Failure) {
        let lock: FileLock
        do throws(FileLock.Failure) { lock = try FileLock(target) } catch { throw Self.failure(error) }
        defer { withExtendedLifetime(lock) {} }
        guard let status = FileStatus.of(target), FileVersion(target) == version else { throw Self.changed }
        // A killed command left a copy of the configuration.
        PrivateFile.removeLeftovers(of: Self.hidden(target))
        let temporary = PrivateFile.temporary(for: Self.hidden(target))
        let file = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw PrivateFile.Failure(code: errno) }
        do throws(PrivateFile.Failure) {
            defer { close(file) }
            try Self.fill(file, with: content, like: status)
            guard FileVersion(target) == version else { throw Self.changed }
            guard unsafe rename(temporary, target) == 0 else {
                throw errno == ENOENT ? Self.changed : PrivateFile.Failure(code: errno)
            }
        } catch {
            _ = PrivateFile.remove(temporary)
            throw error
        }
        try PrivateFile.synchronizeDirectory(of: target)
    }

    private static func failure(_ failure: FileLock.Failure) -> PrivateFile.Failure {
        switch failure {
        case .held: PrivateFile.Failure("another command is writing it; run the command again")
        case .other(let code): PrivateFile.Failure(code: code)
        }
    }

    private static let changed = PrivateFile.Failure("it was changed in the meantime; run the command again")

    private static func fill(_ file: Int32, with content: [UInt8], like status: stat) throws(PrivateFile.Failure) {
        var own = stat()
        guard unsafe fstat(file, &own) == 0 else { throw PrivateFile.Failure(code: errno) }
        if own.st_uid != status.st_uid || own.st_gid != status.st_gid {
            guard fchown(file, status.st_uid, status.st_gid) == 0 else {
                throw PrivateFile.Failure("it belongs to another user or group; run the command as that user")
            }
        }
        guard fchmod(file, status.st_mode & 0o7777) == 0, Descriptor.writeAll(content, to: file), fsync(file) == 0
        else { throw PrivateFile.Failure(code: errno) }
    }

    /// With a dot in front, so that no `include: conf.d/*` takes what is beside it for a part of the configuration.
    private static func hidden(_ path: String) -> String {
        let slash = path.lastIndex(of: "/").map { path.index(after: $0) } ?? path.startIndex
        return "\(path[..<slash]).\(path[slash...])"
    }
}
