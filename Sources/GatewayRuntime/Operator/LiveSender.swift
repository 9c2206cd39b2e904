import GatewayCore
import GatewayFiles

/// Prepares and sends the request of `explain --live`.
struct LiveSender: Sendable {
    private static let contentLimit = 16 << 20
    /// Methods that change nothing (RFC 9110 section 9.2.1).
    private static let safeMethods: Set<String> = ["GET", "HEAD", "OPTIONS"]

    private var request: DescribedRequest
    private let content: [UInt8]

    /// - Parameters:
    ///   - token: Of the client; added where the request brings none.
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
        let way = ListenerMatch(explanation.request)
        let head = way.head(of: request, contentLength: content.count)
        let live = LiveRequest(listener: way.listener, host: way.host, bytes: Array(head.utf8) + content)
        let start = ContinuousClock.now
        let answer = try await live.send()
        let report = LiveReport(
            answerTo: request,
            by: way,
            answer,
            idField: explanation.request.idField,
            after: ContinuousClock.now - start
        )
        guard let report else {
            throw CommandFailure(.failed, "what answers at \(way.listener.text) does not speak HTTP")
        }
        return report
    }

    private static func confirms(_ request: DescribedRequest) -> Bool {
        guard Console.isInputTerminal, Console.isErrorTerminal else { return false }
        Console.writeError(
            "\(LogText.clean(request.method)) \(LogText.clean(request.url.shown)) is sent. Go on? [y/N] "
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
        guard path != "-" else { throw CommandFailure(.usage, "--live takes no content from standard input") }
        do throws(BoundedFile.Failure) {
            return try BoundedFile.read(path, limit: contentLimit).bytes
        } catch {
            throw CommandFailure(.failed, "the content in \(LogText.clean(path)) cannot be read: \(error.message)")
        }
    }
}
