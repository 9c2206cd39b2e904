import GatewayCore
import GatewayFiles
import Glibc

/// Reads what must not stand on a command line: from a file, a pipe, or a terminal that does not show it.
package enum SecretInput {
    /// - Parameter path: nil reads standard input; from a terminal after asking for it.
    /// - Throws: When there is nothing to read, or more than a token can be.
    package static func read(_ path: String?, asking prompt: String) throws(CommandFailure) -> [UInt8] {
        guard let path else {
            return isatty(STDIN_FILENO) == 1 ? try ask(prompt) : try all(of: STDIN_FILENO, named: "standard input")
        }
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw CommandFailure(.failed, "\(LogText.clean(path)) cannot be read: \(SystemError.text())")
        }
        defer { close(descriptor) }
        return try all(of: descriptor, named: LogText.clean(path))
    }

    private static func all(of descriptor: Int32, named name: String) throws(CommandFailure) -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = unsafe Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw CommandFailure(.failed, "\(name) cannot be read: \(SystemError.text())") }
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
            guard bytes.count <= ImportedToken.limitBytes else {
                throw CommandFailure(.failed, "\(name) holds more than 64 KiB: that is no token")
            }
        }
    }

    /// Byte by byte, because the terminal's own lines end after 4095 bytes and some tokens do not.
    private static func ask(_ prompt: String) throws(CommandFailure) -> [UInt8] {
        var before = termios()
        guard unsafe tcgetattr(STDIN_FILENO, &before) == 0 else {
            throw CommandFailure(.failed, "the terminal cannot be used: \(SystemError.text())")
        }
        var silent = before
        // An interrupt is read as a byte as well: it must not leave the terminal silent.
        silent.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG)
        guard unsafe tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent) == 0 else {
            throw CommandFailure(.failed, "the terminal cannot be silenced: \(SystemError.text())")
        }
        defer {
            _ = unsafe tcsetattr(STDIN_FILENO, TCSAFLUSH, &before)
            Console.writeError("\n")
        }
        Console.writeError(prompt)
        var bytes: [UInt8] = []
        while bytes.count <= ImportedToken.limitBytes {
            var byte: UInt8 = 0
            let count = unsafe Glibc.read(STDIN_FILENO, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1 else { return bytes }
            switch byte {
            case 0x03: throw CommandFailure(.failed, "interrupted; nothing was imported")
            case 0x04: return bytes
            case 0x08, 0x7F: _ = bytes.popLast()
            case 0x0A, 0x0D:
                // JSON may go on in the next line.
                let isOpen = bytes.first { $0 > 0x20 } == UInt8(ascii: "{") && JSONValue(bytes) == nil
                guard isOpen else { return bytes }
                bytes.append(0x0A)
            default: bytes.append(byte)
            }
        }
        throw CommandFailure(.failed, "more than 64 KiB: that is no token")
    }
}
