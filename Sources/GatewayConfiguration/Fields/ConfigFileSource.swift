package import GatewayHTTP

/// Where the configuration's files come from.
package protocol ConfigFileSource: Sendable {
    /// Makes a path absolute, against the working directory. Touches no file.
    func absolutePath(_ path: String) -> String

    /// - Throws: When the file cannot be read, or has more than `limit` bytes. The message says what to do.
    func read(_ path: String, limit: Int) throws(ConfigFileError) -> [UInt8]

    /// The file or folder at an absolute path, and every folder that decides what this path names; empty when this cannot
    /// be told.
    func places(on path: String) -> [FilePlace]

    /// The names in a folder, in any order; empty when there is no such folder.
    func names(in folder: String) -> [String]
}

extension ConfigFileSource {
    package func places(on path: String) -> [FilePlace] { [] }
}

/// Why a file of the configuration cannot be read.
package struct ConfigFileError: Error, Hashable, Sendable {
    package let message: String
    /// What helps only where the file was named on the command line, not by `include`.
    private let advice: String?

    package init(_ message: String, advice: String? = nil) {
        self.message = message
        self.advice = advice
    }

    package var messageOfMainFile: String { advice.map { "\(message); \($0)" } ?? message }
}

/// How large a configuration may be. The limits keep a mistaken file from taking all memory.
package struct ConfigurationSize: Hashable, Sendable {
    /// The environment variable that raises the limits.
    package static let variable = "AUTHGATEWAY_CONFIG_ENTRIES"
    static let range = 1...10_000_000

    /// How many routes there may be, how many credentials, and how many clients.
    package let entries: Int
    /// Bytes of one file: 800 for each of twenty thousand entries.
    package var bytes: Int { max(16 << 20, entries * 800) }
    /// Values in one file.
    package var nodes: Int { max(1_000_000, entries * 50) }

    package init(entries: Int = 20_000) { self.entries = entries }

    package static func read(_ environment: (String) -> String?) -> Result<ConfigurationSize, UnusableInput> {
        guard let text = environment(variable), !text.isEmpty else { return .success(ConfigurationSize()) }
        guard let entries = Int(text), range.contains(entries) else {
            return .failure(
                UnusableInput(
                    "\(variable) must be a whole number from 1 to \(range.upperBound), without a sign or unit"
                )
            )
        }
        return .success(ConfigurationSize(entries: entries))
    }
}

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
            message: "\(path) belongs to another user (\(stranger)), and any user can put files into its folder; use "
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

/// File name patterns: `*` stands for any characters, `?` for one.
package enum Wildcard {
    /// Takes time in proportion to the product of both lengths at most.
    package static func matches(_ name: [UInt8], _ pattern: [UInt8]) -> Bool {
        var (at, mark) = (0, 0)
        var star: Int?
        var index = 0
        while index < name.count {
            if at < pattern.count, pattern[at] == UInt8(ascii: "*") {
                star = at
                mark = index
                at += 1
            } else if at < pattern.count, pattern[at] == UInt8(ascii: "?") || pattern[at] == name[index] {
                at += 1
                index += 1
            } else if let star {
                at = star + 1
                mark += 1
                index = mark
            } else {
                return false
            }
        }
        return pattern[at...].allSatisfy { $0 == UInt8(ascii: "*") }
    }
}
