import GatewayCore
import GatewayFiles
import Glibc

/// The words of the command line as one input for ``ExplainInput``.
package enum ExplainInputText {
    /// - Parameter words: `-` alone reads standard input.
    package static func read(_ words: [String]) throws(CommandFailure) -> String {
        if words == ["-"] { return try standardInput() }
        // The shell has taken the quotation marks away.
        return words.count > 1 && words[0] == "curl"
            ? words.map(ShellWord.quoted).joined(separator: " ") : words.joined(separator: " ")
    }

    private static func standardInput() throws(CommandFailure) -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while bytes.count <= ExplainInput.limit {
            let count = unsafe Glibc.read(STDIN_FILENO, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                throw CommandFailure(.failed, "standard input cannot be read: \(SystemError.text())")
            }
            guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
            bytes += buffer[..<count]
        }
        throw CommandFailure(.usage, "standard input holds more than 64 KiB: that is no request")
    }
}
