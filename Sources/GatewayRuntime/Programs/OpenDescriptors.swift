import Foundation
import Glibc

/// The files that this process was started with, which a program that it starts may be meant to have.
package struct OpenDescriptors: Sendable {
    private let numbers: Set<Int32>

    /// Those that are open now.
    static var current: OpenDescriptors {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/dev/fd")) ?? []
        // That of the folder itself is closed by now.
        let numbers = names.compactMap { Int32($0) }.filter { fcntl($0, F_GETFD) >= 0 }
        return OpenDescriptors(numbers: Set(numbers))
    }

    /// Opens each of standard input, output and error that was closed at the start. Otherwise the next socket or file would get its number,
    /// and whatever is printed. They can be neither read nor written, as if they were still closed.
    package static func fillStandard() {
        for number in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(number, F_GETFD) < 0 {
            let file = unsafe open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY)
            if file != number { exit(EXIT_FAILURE) }
        }
    }

    /// Keeps what was opened since from programs.
    func closeOthersInPrograms() {
        for number in Self.current.numbers.subtracting(numbers) where number > 2 {
            _ = fcntl(number, F_SETFD, FD_CLOEXEC)
        }
    }
}
