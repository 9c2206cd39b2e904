import GatewayCore
import NIOCore
import NIOPosix
import NIOSSL

/// Sends one request to the running gateway, byte for byte as it was explained, and takes the whole answer.
struct LiveRequest: Sendable {
    private static let deadline: Duration = .seconds(100)
    /// More than this of an answer is not waited for.
    private static let answerLimit = 16 << 20

    let listener: BoundListener
    let host: String
    let bytes: [UInt8]

    /// - Returns: What came until the gateway closed the connection, or until the limit.
    func send() async throws(CommandFailure) -> [UInt8] {
        let answer: [UInt8]?
        do {
            answer = try await withThrowingTaskGroup(of: [UInt8]?.self) { group in
                group.addTask { try await exchange() }
                group.addTask {
                    try await Task.sleep(for: Self.deadline)
                    return nil
                }
                let first = try await group.next() ?? nil
                group.cancelAll()
                return first
            }
        } catch {
            throw CommandFailure(
                .unreachable,
                "the request could not be sent to \(listener.text): \(Self.words(for: error))"
            )
        }
        guard let answer else {
            let limit = ConfigUnits.text(Self.deadline)
            throw CommandFailure(.failed, "\(listener.text) has not answered within \(limit)")
        }
        return answer
    }

    private func exchange() async throws -> [UInt8] {
        let channel = try await connect()
        return try await channel.executeThenClose { inbound, outbound in
            try await outbound.write(ByteBuffer(bytes: bytes))
            var answer: [UInt8] = []
            do {
                for try await part in inbound {
                    answer += part.readableBytesView
                    if answer.count > Self.answerLimit || Self.isUpgraded(answer) { break }
                }
            } catch  where !answer.isEmpty {
                // The end of the connection was not a clean one; what has come is shown.
            }
            return answer
        }
    }

    /// A tunnel does not end by itself.
    private static func isUpgraded(_ answer: [UInt8]) -> Bool { answer.starts(with: Array("HTTP/1.1 101".utf8)) }

    private func connect() async throws -> NIOAsyncChannel<ByteBuffer, ByteBuffer> {
        let context = listener.isTLS ? try NIOSSLContext(configuration: .makeClientConfiguration()) : nil
        let name = Origin(scheme: .https, authority: host)?.host
        let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connectTimeout(.seconds(5))
        let prepare: @Sendable (any Channel) -> EventLoopFuture<NIOAsyncChannel<ByteBuffer, ByteBuffer>> = { channel in
            channel.eventLoop.makeCompletedFuture {
                if let context {
                    let isName = name.map { !$0.contains(":") && !Origin(scheme: .https, host: $0, port: 1).isIPv4 }
                    let handler = try NIOSSLClientHandler(context: context, serverHostname: isName == true ? name : nil)
                    try channel.pipeline.syncOperations.addHandler(handler)
                }
                return try NIOAsyncChannel(wrappingChannelSynchronously: channel)
            }
        }
        switch listener.address {
        case .unix(let path, _):
            return try await bootstrap.connect(unixDomainSocketPath: path, channelInitializer: prepare)
        case .tcp(let host, let port):
            let own = ["0.0.0.0", "::"].contains(host) ? "127.0.0.1" : host
            return try await bootstrap.connect(host: own, port: listener.port ?? port, channelInitializer: prepare)
        }
    }

    private static func words(for error: any Error) -> String {
        if let alert = TLSAlert(error) { return "it refused the TLS connection with the alert \(alert.name)" }
        return switch error {
        case let error as IOError: LogText.clean("\(error)")
        case is NIOSSLError, is NIOSSLExtraError:
            "its certificate is not one that this machine trusts; use a plaintext listener of the gateway"
        default: LogText.clean("\(error)")
        }
    }
}
