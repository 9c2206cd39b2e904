import HTTPTypes
import Hummingbird

/// Answers of a chosen size, pace or status.
enum Streams {
    private static let pieceSize = 64 * 1024
    private static let longest = 1 << 40

    /// `?chunked=1` leaves the length out, so that HTTP/1.1 sends chunks; `?cut=` closes the connection after so many
    /// bytes. The writer waits for a slow reader.
    @Sendable static func bytes(_ request: Request, _ context: SandboxContext) async throws -> Response {
        guard let count = context.parameters.get("count", as: Int.self), (0...longest).contains(count) else {
            throw HTTPError(.badRequest, message: "expected a number of bytes up to \(longest)")
        }
        let sent = min(count, try number("cut", of: request, in: 0...longest, fallback: count))
        let isChunked = request.uri.queryParameters["chunked"] == "1"
        let body = ResponseBody(contentLength: isChunked ? nil : count) { writer in
            let piece = ByteBuffer(repeating: UInt8(ascii: "x"), count: min(sent, pieceSize))
            var remaining = sent
            while remaining >= piece.readableBytes, remaining > 0 {
                try await writer.write(piece)
                remaining -= piece.readableBytes
            }
            if remaining > 0 { try await writer.write(ByteBuffer(repeating: UInt8(ascii: "x"), count: remaining)) }
            guard sent == count else {
                try await context.channel.close()
                return
            }
            try await writer.finish(nil)
        }
        return Response(status: .ok, headers: [.contentType: "application/octet-stream"], body: body)
    }

    /// Server-sent events: `?events=` (10) of them, `?interval_ms=` (100) apart.
    @Sendable static func events(_ request: Request, _ context: SandboxContext) async throws -> Response {
        let count = try number("events", of: request, in: 1...100_000, fallback: 10)
        let interval = try number("interval_ms", of: request, in: 0...60_000, fallback: 100)
        let body = ResponseBody { writer in
            for index in 1...count {
                if index > 1, interval > 0 { try await Task.sleep(for: .milliseconds(interval)) }
                try await writer.write(ByteBuffer(string: "id: \(index)\ndata: {\"event\":\(index)}\n\n"))
            }
            try await writer.finish(nil)
        }
        return Response(
            status: .ok,
            headers: [.contentType: "text/event-stream", .cacheControl: "no-cache"],
            body: body
        )
    }

    @Sendable static func status(_ request: Request, _ context: SandboxContext) async throws -> Response {
        guard let code = context.parameters.get("code", as: Int.self), (200...599).contains(code) else {
            throw HTTPError(.badRequest, message: "expected a status from 200 to 599")
        }
        let status = HTTPResponse.Status(code: code)
        if [204, 304].contains(code) { return Response(status: status) }
        return .json(["status": .integer(code)], status: status)
    }

    /// Answers after `?ms=` milliseconds.
    @Sendable static func slow(_ request: Request, _ context: SandboxContext) async throws -> Response {
        let delay = try number("ms", of: request, in: 0...120_000, fallback: 1000)
        try await Task.sleep(for: .milliseconds(delay))
        return .json(["slept_ms": .integer(delay)])
    }

    /// 302 to `?to=`.
    @Sendable static func redirect(_ request: Request, _ context: SandboxContext) async throws -> Response {
        let target = request.uri.queryParameters["to"].map(String.init) ?? "/echo"
        return .empty(.found, [.location: target])
    }

    private static func number(
        _ name: String,
        of request: Request,
        in range: ClosedRange<Int>,
        fallback: Int
    ) throws -> Int {
        guard let text = request.uri.queryParameters[Substring(name)] else { return fallback }
        guard let number = Int(text), range.contains(number) else {
            throw HTTPError(.badRequest, message: "\(name): from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }
}
