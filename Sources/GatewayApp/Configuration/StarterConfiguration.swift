private import CPresets
import GatewayFiles

/// The configuration of a first run: `gateway.yaml`, and the routes of the sandbox that it includes with `--sandbox`.
///
/// Both are files of the repository, without their first line, which names another file there.
package enum StarterConfiguration {
    /// Whether both may be written, without being asked for, into a folder that holds these names: beside them, there is only what an
    /// earlier run has left.
    package static func mayBegin(among names: [String]) -> Bool {
        Set(names).isSubset(of: ["state", "sandbox.yaml"])
    }

    /// Writes both, and replaces neither.
    ///
    /// - Parameters:
    ///   - path: The path of the main file. A file that is there is an error.
    ///   - port: The port of the proxy listener. The admin listener has the next one.
    /// - Returns: The files that were written, as messages print them.
    package static func write(to path: String, port: Int = Self.usualPort) throws(CommandFailure) -> String {
        let slash = path.lastIndex(of: "/")
        let sandbox = (slash.map { String(path[...$0]) } ?? "") + "sandbox.yaml"
        let isNew = FileIdentity(sandbox) == nil
        try write(main(port: port), to: path)
        if isNew { try write(sandboxRoutes, to: sandbox) }
        return LogText.clean(path) + (isNew ? " and \(LogText.clean(sandbox))" : "")
    }

    private static func write(_ content: [UInt8], to path: String) throws(CommandFailure) {
        do throws(PrivateFile.Failure) {
            try PrivateFile.createNew(path, content: content)
        } catch {
            throw CommandFailure(.failed, "\(LogText.clean(path)) cannot be written: \(error.reason)")
        }
    }

    /// The port of the proxy listener in the repository's file.
    private static let usualPort = 8080

    private static func main(port: Int) -> [UInt8] {
        var length = 0
        let start = unsafe authgateway_starter(&length)
        let bytes = unsafe withoutFirstLine(UnsafeBufferPointer(start: start, count: length))
        guard port != usualPort else { return bytes }
        // One pass: the new port of one listener can be the usual one of the other.
        let parts = String(decoding: bytes, as: UTF8.self)
            .split(separator: "127.0.0.1:\(usualPort)", omittingEmptySubsequences: false)
            .map { $0.replacing("127.0.0.1:\(usualPort + 1)", with: "127.0.0.1:\(port + 1)") }
        return Array(parts.joined(separator: "127.0.0.1:\(port)").utf8)
    }

    private static var sandboxRoutes: [UInt8] {
        var length = 0
        let start = unsafe authgateway_sandbox(&length)
        return unsafe withoutFirstLine(UnsafeBufferPointer(start: start, count: length))
    }

    private static func withoutFirstLine(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8] {
        unsafe Array(text.drop { $0 != 0x0A }.dropFirst())
    }
}
