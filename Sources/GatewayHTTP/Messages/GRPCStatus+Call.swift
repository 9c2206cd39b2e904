extension GRPCStatus {
    /// Whether the request is a call of gRPC: its content is `application/grpc`, in any encoding of messages.
    ///
    /// gRPC-Web is not: browsers read the HTTP status.
    package static func isCall(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        for field in head.fields where bytes.equalsLowercased(field.name, "content-type") {
            let type = bytes.string(field.value).lowercased()
            guard type.hasPrefix("application/grpc") else { return false }
            let rest = type.dropFirst("application/grpc".count).first
            return rest == nil || rest == "+" || rest == ";" || rest == " "
        }
        return false
    }
}
