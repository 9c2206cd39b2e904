/// What is said of the gateway's own files: the state directory, and the keys in it.
package enum FileRule {
    package struct Observation: Hashable, Sendable {
        /// The permission bits (0777).
        package let mode: UInt32
        package let isFolder: Bool
        /// Whether it belongs to the user who asks.
        package let isOwn: Bool

        package init(mode: UInt32, isFolder: Bool, isOwn: Bool) {
            self.mode = mode
            self.isFolder = isFolder
            self.isOwn = isOwn
        }
    }

    /// - Parameter seen: nil when nothing is there.
    package static func stateDirectory(_ path: String, _ seen: Observation?) -> DoctorFinding {
        func error(_ text: String, _ remedy: String, command: String? = nil) -> DoctorFinding {
            DoctorFinding(.files, .error, path, text, remedy: remedy, command: command)
        }
        guard let seen else {
            return DoctorFinding(.files, .ok, path, "the state directory is not there yet; the first start makes it")
        }
        guard seen.isFolder else {
            return error("the state directory is not a directory", "Set state_directory to another place.")
        }
        guard seen.isOwn else {
            let remedy = "Run this as the gateway's user, or set state_directory to a place of your own."
            return error("the state directory belongs to another user", remedy)
        }
        guard seen.mode & 0o022 == 0 else {
            let command = "chmod 700 \(ShellWord.quoted(path))"
            return error("others may write to the state directory", "Remove that permission.", command: command)
        }
        return DoctorFinding(.files, .ok, path, "the state directory is this user's own")
    }

    /// A file that only its owner may read: a key, or the token store.
    ///
    /// - Parameter seen: nil when nothing is there, which is nothing to say here.
    package static func secret(_ path: String, _ seen: Observation?) -> DoctorFinding? {
        guard let seen else { return nil }
        guard seen.isOwn else {
            let remedy = "Run this as the gateway's user, or give the file to that user."
            return DoctorFinding(.files, .error, path, "belongs to another user", remedy: remedy)
        }
        guard seen.mode & 0o077 == 0 else {
            return DoctorFinding(
                .files,
                .error,
                path,
                "others may read or write it (mode \(String(seen.mode, radix: 8)))",
                remedy: "Remove that permission. If another user may have read the file, replace the key, too.",
                command: "chmod 600 \(ShellWord.quoted(path))"
            )
        }
        return DoctorFinding(.files, .ok, path, "only its owner may read it")
    }

    /// How little room on the disk is worth a word.
    private static let scarce = 100 << 20
    private static let exhausted = 1 << 20

    /// Whether a database can grow.
    ///
    /// - Parameter free: Bytes.
    package static func room(_ group: DoctorFinding.Group, _ path: String, free: Int) -> DoctorFinding? {
        guard free < scarce else { return nil }
        return DoctorFinding(
            group,
            free < exhausted ? .error : .warning,
            path,
            "the disk has \(free >> 20) MiB left",
            remedy: "Free some space.",
            command: "df -h \(ShellWord.quoted(path))"
        )
    }
}
