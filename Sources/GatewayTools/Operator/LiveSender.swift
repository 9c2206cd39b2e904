import GatewayApp
import GatewayFiles
import GatewayHTTP
import GatewayProxy
import NIOCore
import NIOPosix
import NIOSSL

/// Prepares and sends the request of `explain --live`.
struct LiveSender: Sendable {
    private static let contentLimit = 16 << 20
    /// Methods that change nothing (RFC 9110 section 9.2.1).
    private static let safeMethods: Set<String> = ["GET", "HEAD", "OPTIONS"]

    private var request: DescribedRequest
    private let content: [UInt8]

    /// - Parameters:
    ///   - token: The token of the client; added if the request brings none.
    ///   - isConfirmed: A method that can change something is sent without a question.
    init(_ request: DescribedRequest, token: Secret?, isConfirmed: Bool) throws(CommandFailure) {
        guard isConfirmed || Self.safeMethods.contains(request.method) || Self.confirms(request) else {
            throw CommandFailure(.usage, "\(LogText.clean(request.method)) can change something; add --yes to send it")
        }
        self.request = request
        content = try Self.content(of: request)
        let names = Set(request.fields.map { $0.name.lowercased() })
        if let token, !names.contains("proxy-authorization") {
            self.request.fields.append(.init("Proxy-Authorization", token.withValue { "Bearer \($0)" }))
        }
        // The end of the answer is the end of the connection then. It is not forwarded.
        if !names.contains("connection") { self.request.fields.append(.init("Connection", "close")) }
    }

    /// - Parameter explanation: Says how the request comes in.
    func send(_ explanation: Explanation) async throws(CommandFailure) -> LiveReport {
        let match = ListenerMatch(explanation.request)
        let head = match.head(of: request, contentLength: content.count)
        let live = LiveRequest(listener: match.listener, host: match.host, bytes: Array(head.utf8) + content)
        let start = ContinuousClock.now
        let answer = try await live.send()
        let report = LiveReport(
            answerTo: request,
            by: match,
            answer,
            idField: explanation.request.idField,
            after: ContinuousClock.now - start
        )
        guard let report else {
            throw CommandFailure(.failed, "what answers at \(match.listener.text) does not speak HTTP")
        }
        return report
    }

    private static func confirms(_ request: DescribedRequest) -> Bool {
        guard Console.isInputTerminal, Console.isErrorTerminal else { return false }
        Console.writeError(
            "\(LogText.clean(request.method)) \(LogText.clean(request.url.shown)) will be sent. Continue? [y/N] "
        )
        return ["y", "yes"].contains(readLine()?.lowercased() ?? "")
    }

    private static func content(of request: DescribedRequest) throws(CommandFailure) -> [UInt8] {
        var bytes: [UInt8] = []
        for part in request.content {
            switch part {
            case .text(let text): bytes += text.utf8
            case .file(let path, let dropsLineBreaks):
                let file = try read(path)
                bytes += dropsLineBreaks ? file.filter { $0 != 0x0A && $0 != 0x0D } : file
            }
        }
        return bytes
    }

    /// A client token that stands in no command line.
    ///
    /// - Parameter reference: `env:NAME` or `file:PATH`.
    static func token(_ reference: String) throws(CommandFailure) -> Secret {
        let secrets = SystemSecretSource()
        if reference.hasPrefix("env:") {
            let name = String(reference.dropFirst("env:".count))
            guard let value = secrets.environment(name), !value.isEmpty else {
                throw CommandFailure(.usage, "the environment variable \(LogText.clean(name)) is not set")
            }
            return Secret(value)
        }
        guard reference.hasPrefix("file:") else {
            throw CommandFailure(.usage, "--token-from is env:NAME or file:PATH, never a token itself")
        }
        do throws(UnusableInput) {
            return try secrets.file(String(reference.dropFirst("file:".count)))
        } catch {
            throw CommandFailure(.failed, LogText.clean(error.message))
        }
    }

    private static func read(_ path: String) throws(CommandFailure) -> [UInt8] {
        guard path != "-" else { throw CommandFailure(.usage, "--live cannot read the body from standard input") }
        do throws(BoundedFile.Failure) {
            return try BoundedFile.read(path, limit: contentLimit).bytes
        } catch {
            throw CommandFailure(.failed, "the body in \(LogText.clean(path)) cannot be read: \(error.message)")
        }
    }
}

/// Sends one request to the running gateway, byte for byte as it was explained, and takes the whole answer.
private struct LiveRequest: Sendable {
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
