/// Text as one word of a POSIX shell, for commands that people copy.
package enum ShellWord {
    package static func quoted(_ text: String) -> String {
        guard text.isEmpty || !text.utf8.allSatisfy(isPlain) else { return text }
        return "'\(text.replacing("'", with: "'\\''"))'"
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: Array("-._/:@%+=,".utf8).contains(byte)
        }
    }
}
