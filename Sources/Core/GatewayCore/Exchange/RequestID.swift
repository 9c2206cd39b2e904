/// The name of one request in logs, problem documents and the audit log.
///
/// Most requests are never named anywhere, so it becomes text only where somebody reads it.
package enum RequestID: Hashable, Sendable, CustomStringConvertible {
    /// The client's own, when it is harmless.
    case given(String)
    /// The run of the gateway, its worker, and the sequence number on that worker.
    case counted(run: UInt32, worker: Int, number: UInt64)

    package var description: String {
        switch self {
        case .given(let text): text
        case .counted(let run, let worker, let number):
            "\(String(run, radix: 36))\(worker)-\(String(number, radix: 36))"
        }
    }

    /// The client's own id where it is harmless: letters, digits, `-`, `_` and `.`, at most 64 of them.
    package static func given(in head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> RequestID? {
        guard head.present.contains(.requestID), let field = head.first(.xRequestID),
            (1...64).contains(field.value.count)
        else { return nil }
        for index in field.value {
            let byte = bytes[index]
            guard byte.isDigit || (byte | 0x20) &- 0x61 < 26 || [0x2D, 0x2E, 0x5F].contains(byte) else { return nil }
        }
        return .given(bytes.string(field.value))
    }
}
