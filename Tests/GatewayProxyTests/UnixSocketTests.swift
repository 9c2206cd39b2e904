import Foundation
import NIOCore
import NIOPosix
import Testing

@testable import GatewayProxy

@Suite("Unix sockets", .timeLimit(.minutes(5)))
struct UnixSocketTests {
    @Test(arguments: [(false, 0o600), (true, 0o666)])
    func theModeIsInForceBeforeAnybodyCanConnectAndNoOtherFileIsConcerned(isShared: Bool, mode: Int) async throws {
        let mask = try Self.mask()
        let group = MultiThreadedEventLoopGroup.singleton
        try await inFolder { path in
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
    }

    /// Nor is it waited for the other process, which may let nobody in.
    @Test(arguments: [SocketKind.listening, .full, .datagram])
    func aSocketOfAnotherProcessStays(_ kind: SocketKind) async throws {
        try await inFolder { path in
            let others = try kind.occupy(path)
            defer { for descriptor in others { close(descriptor) } }
            let started = ContinuousClock.now
            await #expect(throws: ListenerError.self) {
                try await UnixSocket.bind(path, isShared: false, backlog: 8) { _ in Issue.record("it is bound") }
            }
            #expect(ContinuousClock.now - started < .seconds(5))
            #expect(FileManager.default.fileExists(atPath: path))
        }
    }

    @Test func aSocketThatNobodyListensToIsReplaced() async throws {
        try await inFolder { path in
            for descriptor in try SocketKind.listening.occupy(path) { close(descriptor) }
            let channel = try await UnixSocket.bind(path, isShared: false, backlog: 8) { descriptor in
                try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).withBoundSocket(descriptor)
                    .get()
            }
            try await channel.close().get()
        }
    }

    enum SocketKind: Sendable {
        case listening
        /// As many wait to be accepted as may.
        case full
        case datagram

        /// - Returns: The descriptors to be closed.
        func occupy(_ path: String) throws -> [CInt] {
            let type = self == .datagram ? SOCK_DGRAM : SOCK_STREAM
            let descriptor = socket(AF_UNIX, CInt(type.rawValue), 0)
            let address = try SocketAddress(unixDomainSocketPath: path)
            let status = unsafe address.withSockAddr { unsafe bind(descriptor, $0, socklen_t($1)) }
            try #require(status == 0)
            guard self != .datagram else { return [descriptor] }
            try #require(listen(descriptor, self == .full ? 0 : 8) == 0)
            guard self == .full else { return [descriptor] }
            var clients: [CInt] = []
            var isFull = false
            while !isFull {
                let client = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
                clients.append(client)
                isFull = unsafe address.withSockAddr { unsafe connect(client, $0, socklen_t($1)) } != 0
            }
            return clients + [descriptor]
        }
    }

    private func inFolder(_ body: (String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("s-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try await body(folder.appendingPathComponent("socket").path)
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
