import Foundation
package import GatewayFiles
import Glibc
import Synchronization

/// The process's standard streams, for the commands.
package enum Console {
    package static var isInputTerminal: Bool { isatty(STDIN_FILENO) == 1 }
    package static var isOutputTerminal: Bool { isatty(STDOUT_FILENO) == 1 }
    package static var isErrorTerminal: Bool { isatty(STDERR_FILENO) == 1 }

    /// Colour is for people: a terminal that has not been told otherwise (no-color.org).
    package static var usesColor: Bool { isOutputTerminal && !isSet("NO_COLOR") && environment("TERM") != "dumb" }

    /// Written at once, unbuffered.
    ///
    /// - Returns: false when the reader is gone, or nothing can be written; see ``outputFailure``.
    @discardableResult
    package static func write(_ text: String) -> Bool {
        guard !Descriptor.writeAll(Array(text.utf8), to: STDOUT_FILENO) else { return true }
        let code = errno
        failedWrite.withLock { $0 = $0 ?? code }
        return false
    }

    /// Why output was lost, such as a full disk; nil when none was, or when the reader simply had enough.
    package static var outputFailure: String? {
        failedWrite.withLock(\.self).flatMap { $0 == EPIPE ? nil : SystemError.text($0) }
    }

    private static let failedWrite = Mutex<Int32?>(nil)

    package static func writeError(_ text: String) { writeError(Array(text.utf8)) }

    static func writeError(_ bytes: [UInt8]) { _ = Descriptor.writeAll(bytes, to: STDERR_FILENO) }

    package static func exit(_ status: ExitStatus) -> Never { Glibc.exit(status.rawValue) }

    /// With the exit status of another program.
    package static func exit(code: Int32) -> Never { Glibc.exit(code) }

    package static func environment(_ name: String) -> String? {
        unsafe getenv(name).map { unsafe String(cString: $0) }
    }

    private static func isSet(_ name: String) -> Bool { environment(name).map { !$0.isEmpty } ?? false }
}

/// What the process ends with: part of the public contract.
package enum ExitStatus: Int32, Sendable {
    case ok = 0
    case failed = 1
    case usage = 2
    case configuration = 3
    case unreachable = 4
    case verification = 5
}

/// A command that ends with something else than ``ExitStatus/ok``.
package struct CommandFailure: Error, Sendable, CustomStringConvertible {
    package let status: ExitStatus
    /// What goes to standard error, without a line break at the end; empty if everything has been said.
    package let description: String

    package init(_ status: ExitStatus, _ description: String = "") {
        self.status = status
        self.description = description
    }
}

extension CommandFailure {
    /// The gateway's files cannot be used.
    package init(_ error: StateError) { self.init(.failed, error.description) }
}

/// Asks a person before a command changes a file of theirs.
package enum Confirmation {
    /// - Parameter isGiven: The command line says yes.
    /// - Throws: ``ExitStatus/usage`` without a terminal to ask on, ``ExitStatus/failed`` after another answer than yes.
    package static func require(_ question: String, isGiven: Bool) throws(CommandFailure) {
        guard !isGiven else { return }
        guard Console.isInputTerminal, Console.isErrorTerminal else {
            throw CommandFailure(.usage, "nothing was changed: there is no terminal to ask on; add --yes")
        }
        Console.writeError("\(question) [y/N] ")
        let answer = (readLine() ?? "").lowercased().filter { !$0.isWhitespace }
        guard answer == "y" || answer == "yes" else { throw CommandFailure(.failed, "nothing was changed") }
    }
}

/// The browser of the person at this machine.
package enum Browser {
    /// Opens `address` where there is a screen to open it on; that it cannot be opened is no failure: it is printed too.
    package static func open(_ address: String) {
        #if canImport(Darwin)
            let opener = "open"
        #else
            let opener = "xdg-open"
            guard Console.environment("DISPLAY") ?? Console.environment("WAYLAND_DISPLAY") != nil else { return }
        #endif
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [opener, address]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try? process.run()
    }
}
