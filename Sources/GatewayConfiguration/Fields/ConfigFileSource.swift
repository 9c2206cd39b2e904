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
