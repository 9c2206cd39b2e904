import FoundationEssentials

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// Files that only their owner may read.
package enum PrivateFile {
    /// Why something could not be done with a file. The reason ends a sentence of the caller, who knows what the file is for: see
    /// ``StateError/explaining(_:_:)``.
    package struct Failure: Error, Hashable, Sendable {
        package let reason: String

        package init(_ reason: String) { self.reason = reason }

        init(code: Int32) { reason = SystemError.text(code).lowercased() }
    }

    /// Makes sure that a file is there, and its directory (0700), and that only its owner may read it.
    ///
    /// - Parameter keepsMode: Leaves the mode of a file that exists, so that its owner may let a group read it. Such a file
    ///   may be a symbolic link.
    package static func ensure(_ path: String, keepsMode: Bool = false) throws(Failure) {
        try createDirectory(of: path)
        let file = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC | (keepsMode ? 0 : O_NOFOLLOW), 0o600)
        guard file >= 0 else {
            let code = errno
            let barrier = [EACCES, EPERM].contains(code) ? barrier(to: path) : nil
            throw barrier.map { Failure($0.advice) } ?? opening(code)
        }
        defer { close(file) }
        guard keepsMode || fchmod(file, 0o600) == 0 else { throw Failure(code: errno) }
    }

    /// Creates `path` with `content`, whole or not at all, and its directory (0700); does nothing when the file exists.
    package static func create(_ path: String, content: [UInt8]) throws(Failure) {
        _ = try isCreated(path, content: content)
    }

    /// Like ``create(_:content:)``, but a file that exists is an error.
    package static func createNew(_ path: String, content: [UInt8]) throws(Failure) {
        guard try isCreated(path, content: content) else { throw Failure("it already exists") }
    }

    /// - Returns: false when the file exists.
    private static func isCreated(_ path: String, content: [UInt8]) throws(Failure) -> Bool {
        try createDirectory(of: path)
        let temporary = temporary(for: path)
        try write(content, toNew: temporary)
        defer { unsafe unlink(temporary) }
        let isNew = unsafe link(temporary, path) == 0
        guard isNew || errno == EEXIST else { throw Failure(code: errno) }
        try synchronizeDirectory(of: path)
        return isNew
    }

    /// What a file is written to before it is put into the place of `path`.
    static func temporary(for path: String) -> String { "\(path).\(UUID().uuidString).new" }

    /// Whether a file of this name is what a crash has left of ``create(_:content:)`` of another.
    package static func isTemporary(_ name: String, of other: String) -> Bool {
        guard name.hasPrefix(other + "."), name.hasSuffix(".new") else { return false }
        return UUID(uuidString: String(name.dropFirst(other.count + 1).dropLast(4))) != nil
    }

    /// Replaces what is at `path`: readers see the old content or the new one, after a crash too.
    ///
    /// - Parameter lasts: Otherwise the disk is not waited for, and after a power failure the file may be empty.
    package static func replace(
        _ path: String,
        with content: [UInt8],
        mode: UInt32 = 0o600,
        lasts: Bool = true
    ) throws(Failure) {
        let temporary = temporary(for: path)
        try write(content, toNew: temporary, mode: mode, lasts: lasts)
        guard unsafe rename(temporary, path) == 0 else {
            let code = errno
            _ = remove(temporary)
            throw Failure(code: code)
        }
    }

    /// Removes what a killed process has left of ``replace(_:with:)``. No other process may replace the file at that
    /// time.
    package static func removeLeftovers(of path: String) {
        let start = path.lastIndex(of: "/").map { path.index(after: $0) } ?? path.startIndex
        for name in names(beside: path) where isTemporary(name, of: String(path[start...])) {
            _ = remove(path[..<start] + name)
        }
    }

    /// Replaces `path` with `other`. After a crash, it is one or the other.
    package static func replace(_ path: String, by other: String) throws(Failure) {
        guard unsafe rename(other, path) == 0 else { throw Failure(code: errno) }
        try synchronizeDirectory(of: path)
    }

    /// Removes a file, and nothing that is another thing than a file.
    ///
    /// - Returns: Whether it is gone.
    package static func remove(_ path: String) -> Bool { unsafe unlink(path) == 0 }

    /// The names of what is in the directory of `path`.
    package static func names(beside path: String) -> [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: directory(of: path))) ?? []
    }

    /// - Returns: nil when there is no file.
    package static func readSecret(_ path: String, limit: Int) throws(Failure) -> [UInt8]? {
        let file: BoundedFile
        do throws(BoundedFile.Failure) {
            file = try BoundedFile.read(path, limit: limit, followsLinks: false)
        } catch {
            switch error {
            case .missing: return nil
            case .other(let code): throw opening(code)
            case .forbidden, .notRegular, .tooLarge: throw Failure(error.message)
            }
        }
        guard file.owner == geteuid() else { throw Failure("it belongs to another user") }
        guard file.mode & 0o077 == 0 else {
            throw Failure("others may read or write it; fix that with `chmod 600 \(path)`")
        }
        return file.bytes
    }

    /// Returns when the names in the directory of `path` are on the disk.
    package static func synchronizeDirectory(of path: String) throws(Failure) {
        let directory = directory(of: path)
        let descriptor = unsafe open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw unsynchronized(directory, errno) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw unsynchronized(directory, errno) }
    }

    private static func unsynchronized(_ directory: String, _ code: Int32) -> Failure {
        Failure("the directory \(directory) cannot be written to the disk: \(Failure(code: code).reason)")
    }

    /// The content is on the disk when this returns, if it `lasts`.
    private static func write(
        _ content: [UInt8],
        toNew path: String,
        mode: UInt32 = 0o600,
        lasts: Bool = true
    ) throws(Failure) {
        let file = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode_t(mode))
        guard file >= 0 else { throw opening(errno) }
        // The mask of the process takes from the mode what others are to get.
        guard Descriptor.writeAll(content, to: file), mode & 0o077 == 0 || fchmod(file, mode_t(mode)) == 0,
            !lasts || fsync(file) == 0
        else {
            let code = errno
            close(file)
            _ = remove(path)
            throw Failure(code: code)
        }
        close(file)
    }

    /// Makes sure that there is a folder which no other user can change, and those above it; new ones have mode 0700.
    ///
    /// What another user has put there before is refused.
    package static func ensureFolder(_ path: String) throws(Failure) {
        try createDirectory(of: path)
        guard unsafe mkdir(path, 0o700) != 0 else { return }
        let code = errno
        guard code == EEXIST else {
            throw FileBarrier(toCreateFolder: path).map { Failure($0.advice) } ?? Failure(code: code)
        }
        var status = stat()
        guard unsafe lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(),
            status.st_mode & 0o022 == 0
        else { throw Failure("others can change \(path), or it is no folder of this user; remove it") }
    }

    /// Creates the directories above `path` that are missing, with mode 0700.
    private static func createDirectory(of path: String) throws(Failure) {
        let directory = directory(of: path)
        guard FileStatus.of(directory) == nil else { return }
        try createDirectory(of: directory)
        guard unsafe mkdir(directory, 0o700) == 0 || errno == EEXIST else {
            let reason = FileBarrier(toCreate: directory)?.advice ?? "check its owner and mode"
            throw Failure("the directory \(directory) cannot be created; \(reason)")
        }
    }

    private static func barrier(to path: String) -> FileBarrier? {
        FileStatus.of(path) == nil ? FileBarrier(toCreate: path) : FileBarrier(toWrite: path)
    }

    private static func directory(of path: String) -> String {
        path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    }

    private static func opening(_ code: Int32) -> Failure {
        code == ELOOP ? Failure("it is a symbolic link; name the file itself") : Failure(code: code)
    }
}
