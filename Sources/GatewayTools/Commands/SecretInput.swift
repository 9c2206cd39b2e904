package import GatewayApp
import GatewayFiles
import GatewayHTTP
import GatewayProxy
import GatewayTokens
import Glibc

/// Reads what must not stand on a command line: from a file, a pipe, or a terminal that does not show it.
package enum SecretInput {
    /// - Parameter path: nil reads standard input; from a terminal after asking for it.
    /// - Throws: When there is nothing to read, or more than a token can be.
    package static func read(_ path: String?, asking prompt: String) throws(CommandFailure) -> [UInt8] {
        guard let path else {
            return isatty(STDIN_FILENO) == 1 ? try ask(prompt) : try token(from: STDIN_FILENO, named: "standard input")
        }
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw CommandFailure(.failed, "\(LogText.clean(path)) cannot be read: \(SystemError.text())")
        }
        defer { close(descriptor) }
        return try token(from: descriptor, named: LogText.clean(path))
    }

    private static func token(from descriptor: Int32, named name: String) throws(CommandFailure) -> [UInt8] {
        let tooLong = CommandFailure(.failed, "\(name) holds more than 64 KiB, so it is not a token")
        return try all(of: descriptor, named: name, limit: ImportedToken.limitBytes, tooLong: tooLong)
    }

    /// Reads to the end.
    fileprivate static func all(
        of descriptor: Int32,
        named name: String,
        limit: Int,
        tooLong: CommandFailure
    ) throws(CommandFailure) -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = unsafe Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw CommandFailure(.failed, "\(name) cannot be read: \(SystemError.text())") }
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
            guard bytes.count <= limit else { throw tooLong }
        }
    }

    /// Reads byte by byte, because a terminal cuts its lines after 4095 bytes, and some tokens are longer.
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
        throw CommandFailure(.failed, "more than 64 KiB, so it is not a token")
    }
}

/// Reads what a person pastes on standard input, without showing it.
///
/// A terminal in its usual mode cuts a line at 4096 bytes, and an address with tokens may be longer. The terminal is
/// therefore switched to hand over each byte. ``end()`` puts it back.
struct PastedLine {
    enum Reading {
        case waiting
        /// Enter was pressed, and nothing pasted.
        case empty
        case line(String)
        /// Standard input has ended, or the line is longer than any answer can be.
        case nothing
    }

    private static let limitBytes = 64 << 10

    private var bytes: [UInt8] = []
    private var terminal: termios?

    init() {
        guard isatty(STDIN_FILENO) == 1 else { return }
        var settings = termios()
        guard unsafe tcgetattr(STDIN_FILENO, &settings) == 0 else { return }
        terminal = settings
        settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
        _ = unsafe tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }

    func end() {
        guard var terminal else { return }
        // The rest of a paste, after its first line, must not be left for the shell.
        _ = unsafe tcsetattr(STDIN_FILENO, TCSAFLUSH, &terminal)
    }

    /// What there is by now; does not wait.
    mutating func read() -> Reading {
        if let found = takeLine() { return found }
        var input = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        guard unsafe poll(&input, 1, 0) > 0 else { return .waiting }
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = unsafe Glibc.read(STDIN_FILENO, &buffer, buffer.count)
        if count < 0 { return errno == EINTR ? .waiting : .nothing }
        bytes += buffer[..<count]
        if let found = takeLine() { return found }
        guard bytes.count <= Self.limitBytes else { return .nothing }
        guard count == 0 else { return .waiting }
        return bytes.isEmpty ? .nothing : .line(String(decoding: bytes, as: UTF8.self))
    }

    /// Several may come at once, as with a paste that begins with the end of a line.
    private mutating func takeLine() -> Reading? {
        guard let end = bytes.firstIndex(where: { $0 == 0x0A || $0 == 0x0D }) else { return nil }
        let line = String(decoding: bytes[..<end], as: UTF8.self)
        bytes.removeSubrange(...end)
        return line.contains { !$0.isWhitespace } ? .line(line) : .empty
    }
}

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
        let tooLong = CommandFailure(.usage, "standard input holds more than 64 KiB, so it is not a request")
        let bytes = try SecretInput.all(
            of: STDIN_FILENO,
            named: "standard input",
            limit: ExplainInput.limit,
            tooLong: tooLong
        )
        return String(decoding: bytes, as: UTF8.self)
    }
}
