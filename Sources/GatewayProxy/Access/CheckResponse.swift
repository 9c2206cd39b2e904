import GatewayHTTP
import GatewayTokens

/// What Envoy is answered by gRPC: `CheckResponse` of `envoy.service.auth.v3`, in one message with its prefix.
enum CheckResponse {
    /// The path of the one method of the service.
    static let path = "/envoy.service.auth.v3.Authorization/Check"

    /// Bytes before a message: whether it is compressed, and its length (gRPC over HTTP/2, "Length-Prefixed-Message").
    static let prefixBytes = 5

    /// - Parameters:
    ///   - fields: Each takes the place of the client's own of this name.
    ///   - removed: Names, in lower case, of fields that must not reach the upstream.
    static func ok(_ fields: [Injection.Field], removing removed: [String]) -> SecretBytes {
        var response = ProtobufWriter()
        response.add(1) { _ in }
        response.add(3) { ok in
            for field in fields { field.value.withValue { add(field.name.lowercased(), $0, as: 2, to: &ok) } }
            for name in removed { ok.add(5, name) }
        }
        return SecretBytes(framed(response.bytes))
    }

    static func denied(_ answer: ProblemAnswer, _ kind: ProblemKind) -> [UInt8] {
        var response = ProtobufWriter()
        response.add(1) { $0.add(1, UInt64(GRPCStatus(kind).rawValue)) }
        response.add(2) { denied in
            denied.add(1) { $0.add(1, UInt64(answer.status)) }
            // Envoy writes the length of the body itself.
            for field in answer.fields where field.name != "Content-Length" {
                add(field.name.lowercased(), field.value, as: 2, to: &denied)
            }
            denied.add(3, answer.body)
        }
        return framed(response.bytes)
    }

    /// `HeaderValueOption`: header (1) with key (1) and value (2), and append_action (3), OVERWRITE_IF_EXISTS_OR_ADD.
    private static func add(_ name: String, _ value: String, as number: Int, to message: inout ProtobufWriter) {
        message.add(number) { option in
            option.add(1) { header in
                header.add(1, name)
                header.add(2, value)
            }
            option.add(3, 2)
        }
    }

    private static func framed(_ message: [UInt8]) -> [UInt8] {
        let count = UInt32(truncatingIfNeeded: message.count)
        let length = stride(from: UInt32(24), through: 0, by: -8).map { UInt8(truncatingIfNeeded: count >> $0) }
        return [0] + length + message
    }

    /// The message in the content of a call.
    ///
    /// - Returns: nil where that is not one message, or a compressed one.
    static func message(in content: borrowing Span<UInt8>) -> Range<Int>? {
        guard content.count >= prefixBytes, content[0] == 0 else { return nil }
        var count = 0
        for index in 1..<prefixBytes { count = count << 8 | Int(content[index]) }
        guard count == content.count - prefixBytes else { return nil }
        return prefixBytes..<content.count
    }
}
