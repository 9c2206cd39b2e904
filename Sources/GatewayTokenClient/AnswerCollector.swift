import AsyncHTTPClient
import GatewayCore
import NIOCore
import NIOHTTP1
import Synchronization

/// Gathers one answer within its limit, and remembers whether the request had left.
final class AnswerCollector: HTTPClientResponseDelegate {
    typealias Response = TokenReply

    enum Refusal: Error {
        case tooLarge
        /// In an encoding that is not undone here.
        case encoded
        case noHead
    }

    /// Those that async-http-client has undone when the body comes here.
    private static let encodings: Set<String> = ["gzip", "deflate"]

    /// The others that servers use (IANA's registry). What else stands in the field is not repeated.
    private static let unreadable: Set<String> = ["br", "zstd", "compress", "x-compress", "exi", "dcb", "dcz"]

    private struct State {
        var requestWasSent = false
        var head: HTTPResponseHead?
        var codings: String?
        var body: [UInt8] = []
    }

    private let limitBytes: Int
    private let state = Mutex(State())

    init(limitBytes: Int) { self.limitBytes = limitBytes }

    /// Whether the head of the request was handed to the connection. Until then the authority cannot have acted upon
    /// it.
    var requestWasSent: Bool { state.withLock { $0.requestWasSent } }

    /// The content codings of the response, by the names that are safe to show; nil if it has none.
    var codings: String? { state.withLock { $0.codings } }

    func didSendRequestHead(task: HTTPClient.Task<TokenReply>, _ head: HTTPRequestHead) {
        state.withLock { $0.requestWasSent = true }
    }

    func didReceiveHead(task: HTTPClient.Task<TokenReply>, _ head: HTTPResponseHead) -> EventLoopFuture<Void> {
        let encodings = head.headers[canonicalForm: "Content-Encoding"].map { $0.lowercased() }
        let names = encodings.map { Self.encodings.union(Self.unreadable).contains($0) ? $0 : "unknown" }
        if !names.isEmpty { state.withLock { $0.codings = names.prefix(4).joined(separator: ", ") } }
        let isReadable = encodings.isEmpty || encodings.count == 1 && Self.encodings.contains(encodings[0])
        guard isReadable else { return task.eventLoop.makeFailedFuture(Refusal.encoded) }
        if let length = head.headers.first(name: "Content-Length").flatMap({ Int($0) }), length > limitBytes {
            return task.eventLoop.makeFailedFuture(Refusal.tooLarge)
        }
        state.withLock { $0.head = head }
        return task.eventLoop.makeSucceededVoidFuture()
    }

    func didReceiveBodyPart(task: HTTPClient.Task<TokenReply>, _ buffer: ByteBuffer) -> EventLoopFuture<Void> {
        let fits = state.withLock { state in
            guard state.body.count + buffer.readableBytes <= limitBytes else { return false }
            state.body.append(contentsOf: buffer.readableBytesView)
            return true
        }
        return fits ? task.eventLoop.makeSucceededVoidFuture() : task.eventLoop.makeFailedFuture(Refusal.tooLarge)
    }

    func didFinishRequest(task: HTTPClient.Task<TokenReply>) throws -> TokenReply {
        try state.withLock { state in
            guard let head = state.head else { throw Refusal.noHead }
            return TokenReply(
                status: Int(head.status.code),
                fields: head.headers.map { TokenReply.Field(name: $0.name, value: $0.value) },
                body: state.body
            )
        }
    }
}
