import GatewayFiles

/// Small files of the state directory, which only the gateway's user may read.
enum StateFile {
    /// Replaces the file at `path` whole, with mode 0600: readers see the old content or the new one, also after a power failure.
    static func write(_ content: String, to path: String) throws(StateError) {
        PrivateFile.removeLeftovers(of: path)
        do throws(PrivateFile.Failure) {
            try PrivateFile.replace(path, with: Array(content.utf8))
        } catch {
            throw StateError("cannot write \(path): \(error.reason)")
        }
        // As far as the file system can promise that the new name stays: by now it counts for everybody.
        try? PrivateFile.synchronizeDirectory(of: path)
    }

    /// nil when the file cannot be read.
    static func read(_ path: String) -> String? {
        (try? BoundedFile.read(path, limit: 64 << 10)).flatMap { String(validating: $0.bytes, as: UTF8.self) }
    }
}

/// Why the gateway's files cannot be used; says what to do.
package struct StateError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
    init(_ description: String) { self.description = description }
}
