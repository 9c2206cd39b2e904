import GatewayHTTP

/// The decoders alone, on heads as browsers and API servers send them.
enum HeadBenchmarks {
    static let request = """
        GET /2.0/files/12345/content?version=7 HTTP/1.1\r
        Host: 127.0.0.1:8080\r
        User-Agent: box-sdk/10.2 (Linux; x86_64)\r
        Accept: application/json\r
        Accept-Encoding: gzip, br\r
        Accept-Language: en\r
        Authorization: Bearer 0123456789abcdef0123456789abcdef\r
        X-Request-Id: 7f3c0e52\r
        Connection: keep-alive\r
        \r\n
        """

    static let response = """
        HTTP/1.1 200 OK\r
        Date: Sun, 01 Mar 2026 09:30:00 GMT\r
        Content-Type: application/json\r
        Content-Length: 1024\r
        Connection: keep-alive\r
        Strict-Transport-Security: max-age=31536000\r
        Cache-Control: no-cache, no-store\r
        \r\n
        """

    static func all() -> [Benchmark] {
        let (requestBytes, responseBytes) = (bytes(request), bytes(response))
        var requests = RequestHeadDecoder(maxBytes: 32_768, maxFields: 100)
        var responses = ResponseHeadDecoder(maxBytes: 32_768, maxFields: 100)
        return [
            Benchmark(name: "decode a request head", allocations: 0, repetitions: 1_000_000) {
                requests.reset()
                guard case .head = requests.decode(requestBytes.span) else { throw BenchmarkFailure.notDecoded }
            },
            Benchmark(name: "decode a response head", allocations: 0, repetitions: 1_000_000) {
                responses.reset()
                guard case .head = responses.decode(responseBytes.span, answersHead: false) else {
                    throw BenchmarkFailure.notDecoded
                }
            },
        ]
    }

    /// The lines of the literals end with CR LF: the CR is written, the LF is the literal's own.
    private static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }
}

enum BenchmarkFailure: Error {
    case notDecoded
    case noConnection
    case noAnswer
}
