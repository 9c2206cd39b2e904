import Foundation
import GatewayFiles
import Testing

@Suite("Files of limited size", .timeLimit(.minutes(1)))
struct BoundedFileTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test(arguments: [1, 8, 16 << 10, 1 << 20])
    func aFileAboveTheLimitIsRefused(_ limit: Int) throws {
        let path = directory.file("file")
        try directory.write(String(repeating: "x", count: limit), to: "file", mode: 0o600)
        #expect(try BoundedFile.read(path, limit: limit).bytes.count == limit)
        try directory.write(String(repeating: "x", count: limit + 1), to: "file", mode: 0o600)
        #expect(throws: BoundedFile.Failure.tooLarge) { try BoundedFile.read(path, limit: limit) }
    }

    #if os(Linux)
        /// Files in /proc report a size of 0.
        @Test func aFileOfUnknownSizeIsLimitedToo() throws {
            let path = "/proc/self/cmdline"
            let size = try BoundedFile.read(path, limit: 1 << 20).bytes.count
            #expect(size > 1)
            #expect(try BoundedFile.read(path, limit: size).bytes.count == size)
            #expect(throws: BoundedFile.Failure.tooLarge) { try BoundedFile.read(path, limit: size - 1) }
        }
    #endif
}
