import Foundation
import Glibc

/// The files that this process was started with, which a program that it starts may be meant to have.
struct OpenDescriptors: Sendable {
    private let numbers: Set<Int32>

    /// Those that are open now.
    static var current: OpenDescriptors {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/dev/fd")) ?? []
        // That of the folder itself is closed by now.
        let numbers = names.compactMap { Int32($0) }.filter { fcntl($0, F_GETFD) >= 0 }
        return OpenDescriptors(numbers: Set(numbers))
    }

    /// Of what was opened since, a program gets nothing.
    func closeOthersInPrograms() {
        for number in Self.current.numbers.subtracting(numbers) where number > 2 {
            _ = fcntl(number, F_SETFD, FD_CLOEXEC)
        }
    }
}
