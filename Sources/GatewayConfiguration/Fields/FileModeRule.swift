/// A file of the configuration, or a folder on the way to it, with what decides who may change it.
package struct FilePlace: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        case file
        case folder
        /// Every file in it whose name fits is read (`include: conf.d/*.yaml`).
        case listedFolder
    }

    package let path: String
    package var kind: Kind
    /// The permission bits and the sticky bit (07777), as stat(2) reports them.
    package let mode: UInt32
    package let isOnReadOnlyMount: Bool
    /// The user who put it into a folder where everybody may put files; nil for this user, for root, and in other folders.
    package let strangerInSharedFolder: UInt32?

    package init(
        path: String,
        kind: Kind,
        mode: UInt32,
        isOnReadOnlyMount: Bool,
        strangerInSharedFolder: UInt32? = nil
    ) {
        self.path = path
        self.kind = kind
        self.mode = mode
        self.isOnReadOnlyMount = isOnReadOnlyMount
        self.strangerInSharedFolder = strangerInSharedFolder
    }
}

/// Whether other users could change the configuration, and with it where credentials are sent.
package enum FileModeRule {
    package struct Finding: Hashable, Sendable {
        package let severity: ConfigDiagnostic.Severity
        package let message: String
        /// What corrects it; ``message`` ends with it.
        package let command: String
    }

    private enum Writer: String {
        case everyUser = "every user of this machine"
        case group = "its group"
    }

    /// - Parameter isStrict: A place that the group can change is refused, too.
    /// - Returns: nil when only the owner and root can change the file or folder, and no stranger can have put it there.
    package static func finding(of place: FilePlace, isStrict: Bool) -> Finding? {
        guard !place.isOnReadOnlyMount else { return nil }
        if let stranger = place.strangerInSharedFolder { return finding(of: stranger, at: place.path) }
        guard let writer = writer(of: place) else { return nil }
        let isError = writer == .everyUser || isStrict
        let action = place.kind == .file ? "change the file" : "replace files in the folder"
        let command = "chmod \(writer == .everyUser ? "o-w" : "g-w") \(place.path)"
        let strict = writer == .group && isStrict ? " (refused by --strict-modes)" : ""
        let mode = String(place.mode, radix: 8)
        return Finding(
            severity: isError ? .error : .warning,
            message: "\(writer.rawValue) can \(action) \(place.path) (mode \(mode))\(strict); run: \(command)",
            command: command
        )
    }

    private static func finding(of stranger: UInt32, at path: String) -> Finding {
        let command = "chown root \(path)"
        return Finding(
            severity: .error,
            message: "\(path) belongs to another user (\(stranger)), and everybody can put files into its folder; use "
                + "another folder, or if it is yours, run: \(command)",
            command: command
        )
    }

    private static func writer(of place: FilePlace) -> Writer? {
        let isWritableForAll = place.mode & 0o002 != 0
        // In a sticky folder, only the owner of a file can replace it (chmod(2)). Everybody can add a file there.
        let isSticky = place.mode & 0o1000 != 0
        switch place.kind {
        case .folder where isSticky: return nil
        case .file, .folder, .listedFolder:
            if isWritableForAll { return .everyUser }
            return place.mode & 0o020 != 0 ? .group : nil
        }
    }
}
