import Glibc

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
        /// Standard input is over, or the line is longer than anything that is asked for.
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
        // What of a paste stands behind its first line must not become the shell's.
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
