import Glibc

/// A process that runs or has run: its number, and when it started, because the system gives numbers again.
package struct ProcessMark: Hashable, Sendable {
    package let number: Int32
    /// In ticks since the machine started.
    package let started: UInt64

    package init(number: Int32, started: UInt64) {
        self.number = number
        self.started = started
    }

    /// The process with this number; nil where none runs, or where the system does not show it to this user.
    package init?(_ number: Int32) {
        let bytes = (try? BoundedFile.read("/proc/\(number)/stat", limit: 4096))?.bytes
        guard number > 0, let started = bytes.flatMap(Self.start) else { return nil }
        self.init(number: number, started: started)
    }

    /// This process. It stays the same when another program takes its place (execve).
    package static var current: ProcessMark? { ProcessMark(getpid()) }

    package var isAlive: Bool { ProcessMark(number) == self }

    /// - Parameter stat: As `/proc/PID/stat` has it, see proc_pid_stat(5). The name of the program, in parentheses, may have any characters.
    package static func start(in stat: [UInt8]) -> UInt64? {
        guard let end = stat.lastIndex(of: 0x29) else { return nil }
        let fields = stat[stat.index(after: end)...].split(separator: 0x20)
        // The first of these is the third of the file: the state. A zombie does not run.
        guard fields.count > 19, fields[0] != [0x5A] else { return nil }
        return UInt64(String(decoding: fields[19], as: UTF8.self))
    }
}
