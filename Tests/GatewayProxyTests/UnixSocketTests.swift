import Foundation
import NIOCore
import NIOPosix
import Testing

@testable import GatewayProxy

@Suite("Unix sockets")
struct UnixSocketTests {
    @Test(arguments: [(false, 0o600), (true, 0o666)])
    func theModeIsInForceBeforeAnybodyCanConnectAndNoOtherFileIsConcerned(isShared: Bool, mode: Int) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("s-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("socket").path
        let mask = try Self.mask()
        let group = MultiThreadedEventLoopGroup.singleton
        let channel = try await UnixSocket.bind(path, isShared: isShared, backlog: 8) { descriptor in
            #expect(try Self.mask() == mask)
            #expect(try Self.mode(of: path) == mode)
            await #expect(throws: (any Error).self) {
                try await ClientBootstrap(group: group).connect(unixDomainSocketPath: path).get()
            }
            return try await ServerBootstrap(group: group).withBoundSocket(descriptor).get()
        }
        #expect(try Self.mode(of: path) == mode)
        try await ClientBootstrap(group: group).connect(unixDomainSocketPath: path).get().close().get()
        try await channel.close().get()
    }

    private static func mode(of path: String) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
    }

    /// Of this process; to ask the system for it would be to change it.
    private static func mask() throws -> Substring {
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        return try #require(status.split(separator: "\n").first { $0.hasPrefix("Umask:") })
    }
}
