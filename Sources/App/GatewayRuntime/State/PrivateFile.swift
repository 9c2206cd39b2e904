import Glibc

/// Files that only their owner may read.
enum PrivateFile {
    /// Replaces the file at `path` whole, with mode 0600: readers see the old content or the new one, also after a power failure.
    static func write(_ content: String, to path: String) throws(StateError) {
        let temporary = path + ".new"
        _ = unsafe unlink(temporary)
        let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw StateError("cannot create \(temporary): \(SystemError.text())") }
        defer { close(descriptor) }
        guard Self.writeAll(Array(content.utf8), to: descriptor), fsync(descriptor) == 0,
            unsafe rename(temporary, path) == 0
        else { throw StateError("cannot write \(path): \(SystemError.text())") }
        syncFolder(of: path)
    }

    /// So that the new name stays, as far as the file system can promise that: by now it counts for everybody.
    private static func syncFolder(of path: String) {
        let folder = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let descriptor = unsafe open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        close(descriptor)
    }

    static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 || errno != ENOENT }

    /// The user that what is there belongs to; nil when nothing is.
    static func owner(_ path: String) -> uid_t? {
        var information = stat()
        return unsafe stat(path, &information) == 0 ? information.st_uid : nil
    }

    /// At most 64 KiB. nil when the file cannot be read.
    static func read(_ path: String) -> String? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while bytes.count < 64 << 10 {
            let count = unsafe Glibc.read(descriptor, &buffer, buffer.count)
            guard count > 0 else { return count == 0 ? String(validating: bytes, as: UTF8.self) : nil }
            bytes += buffer[..<count]
        }
        return nil
    }

    /// Writes everything, or says that it could not. Waits when the other end does not take it yet.
    static func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN {
                var descriptor = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                guard unsafe poll(&descriptor, 1, -1) >= 0 || errno == EINTR else { return false }
                continue
            }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}

/// Why the state directory cannot be used; says what to do.
package struct StateError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
    init(_ description: String) { self.description = description }
}

enum SystemError {
    /// The text of `errno`.
    static func text(_ code: Int32 = errno) -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard unsafe strerror_r(code, &buffer, buffer.count) == 0 else { return "error \(code)" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
