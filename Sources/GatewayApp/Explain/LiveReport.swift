import GatewayHTTP
package import GatewayProxy

/// What came of a request that was sent for an explanation.
package struct LiveReport: Hashable, Sendable, Codable {
    package var method: String
    /// With the values of its query masked.
    package var target: String
    package var status: Int
    /// The id that the gateway gave the request; nil if the answer names none.
    package var requestId: String?
    /// Bytes of the response behind its head, framing included.
    var contentBytes: Int
    package var milliseconds: Int
    /// What the gateway says of a request that it answered by itself.
    package var problem: String?

    /// - Parameters:
    ///   - bytes: All that came.
    ///   - idField: The name of the field with the gateway's id; nil where answers have none.
    /// - Returns: nil when it is no response.
    package init?(
        answerTo request: DescribedRequest,
        by match: ListenerMatch,
        _ bytes: [UInt8],
        idField: String?,
        after duration: Duration
    ) {
        var rest = bytes[...]
        while true {
            var decoder = ResponseHeadDecoder(maxBytes: 1 << 20, maxFields: 10_000)
            let head = Array(rest)
            guard case .head = decoder.decode(head.span, answersHead: request.method == "HEAD") else { return nil }
            rest = rest.dropFirst(decoder.head.end)
            guard decoder.head.isInformational, decoder.head.status != 101 else {
                status = decoder.head.status
                requestId = idField.flatMap { name in Self.value(of: name, decoder.head, head) }
                let isProblem = Self.value(of: "Content-Type", decoder.head, head)?.hasPrefix(
                    "application/problem+json"
                )
                problem = isProblem == true ? Self.detail(of: rest) : nil
                break
            }
        }
        method = ShownText.clean(request.method, limit: 40)
        target = ShownText.target(match.target(of: request))
        contentBytes = rest.count
        milliseconds = Int(clamping: duration.wholeMilliseconds)
    }

    private static func value(of name: String, _ head: borrowing ResponseHead, _ bytes: [UInt8]) -> String? {
        let wanted = name.utf8.map(\.asciiLowercased)
        for field in head.fields where bytes.span.equalsLowercased(field.name, wanted) {
            return ShownText.clean(bytes.span.string(field.value), limit: 100)
        }
        return nil
    }

    private static func detail(of content: ArraySlice<UInt8>) -> String? {
        JSONValue(Array(content))?["detail"]?.string.map { ShownText.clean($0, limit: 600) }
    }

    /// The report as people read it.
    package var text: String {
        var lines = [
            "Sent \(method) \(target): \(status), a body of \(contentBytes.counted("byte")), \(milliseconds) ms."
        ]
        if let problem { lines.append("The gateway says: \(problem)") }
        lines.append(requestId.map { "Gateway-Request-Id: \($0)" } ?? "The answer names no request id.")
        return lines.joined(separator: "\n") + "\n"
    }
}
