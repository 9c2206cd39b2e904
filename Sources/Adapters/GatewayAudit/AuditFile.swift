import Foundation

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// The few things about files that SQLite does not do for us.
enum AuditFile {
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

    /// Makes sure that the directory (0700) and the file (0600) are there; a file that exists keeps its mode, so that an
    /// operator may let a group read the log.
    static func ensure(_ path: String) throws(Failure) {
        let folder = (path as NSString).deletingLastPathComponent
        if !folder.isEmpty, !FileManager.default.fileExists(atPath: folder) {
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
        let file = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw Failure(code: errno) }
        close(file)
    }

    /// Removes what a killed process left behind while it replaced `path`.
    static func removeLeftovers(of path: String) {
        let folder = (path as NSString).deletingLastPathComponent
        let name = (path as NSString).lastPathComponent
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.isEmpty ? "." : folder)) ?? []
        for leftover in names where leftover.hasPrefix(name + ".") && leftover.hasSuffix(".new") {
            try? FileManager.default.removeItem(atPath: folder.isEmpty ? leftover : "\(folder)/\(leftover)")
        }
    }

    /// Readers see the old content or the new, after a crash too.
    static func replace(_ path: String, with content: Data) throws(Failure) {
        let temporary = "\(path).\(getpid()).new"
        let file = unsafe open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw Failure(code: errno) }
        let handle = FileHandle(fileDescriptor: file, closeOnDealloc: true)
        do {
            try handle.write(contentsOf: content)
            try handle.synchronize()
            try handle.close()
        } catch {
            unsafe unlink(temporary)
            throw Failure("it cannot be written; is the disk full?")
        }
        guard unsafe rename(temporary, path) == 0 else {
            let code = errno
            unsafe unlink(temporary)
            throw Failure(code: code)
        }
    }
}
