import GatewayHTTP

/// Joins the first message of a TLS client into one record.
///
/// A client may send its hello in several records, such as one with post-quantum keys through a program that splits it. The library
/// reads the name that it asks for from the first record alone. What TLS itself computes of a message does not depend on its records.
///
/// Remembers the records that it has read: a client that sends one byte at a time must not have them copied for each.
struct TLSHelloRecords {
    enum Step: Equatable, Sendable {
        case unfinished
        /// These bytes stand for all that has come.
        case joined([UInt8])
        /// It is one record already, or no hello.
        case unchanged
    }

    /// The most that is read before the hello is complete.
    static let maximum = 32_768
    /// The most content of a record (RFC 8446 section 5.1).
    private static let maximumContent = 16_384
    private static let recordHead = 5
    private static let messageHead = 4
    private static let handshake: UInt8 = 22

    /// The content of the records before ``start``.
    private var content: [UInt8] = []
    private var start = 0

    init() {}

    /// - Parameter bytes: All that has come on the connection.
    mutating func join(_ bytes: borrowing Span<UInt8>) -> Step {
        while true {
            guard start == 0 || bytes.count <= Self.maximum else { return .unchanged }
            guard bytes.count - start >= Self.recordHead else {
                return start < bytes.count && bytes[start] != Self.handshake ? .unchanged : .unfinished
            }
            let length = Int(bytes[start + 3]) << 8 | Int(bytes[start + 4])
            guard bytes[start] == Self.handshake, bytes[start + 1] == 3, length > 0,
                content.count + length <= Self.maximumContent
            else { return .unchanged }
            let end = start + Self.recordHead + length
            guard end <= bytes.count else { return .unfinished }
            for index in start + Self.recordHead..<end { content.append(bytes[index]) }
            if let message = Self.messageSize(content), content.count >= message {
                guard start > 0 else { return .unchanged }
                return .joined(Self.record(content, like: bytes) + bytes.array(end..<bytes.count))
            }
            start = end
        }
    }

    /// nil while its head is not whole.
    private static func messageSize(_ content: [UInt8]) -> Int? {
        guard content.count >= messageHead else { return nil }
        return messageHead + (Int(content[1]) << 16 | Int(content[2]) << 8 | Int(content[3]))
    }

    private static func record(_ content: [UInt8], like first: borrowing Span<UInt8>) -> [UInt8] {
        [handshake, first[1], first[2], UInt8(content.count >> 8), UInt8(content.count & 0xFF)] + content
    }
}
