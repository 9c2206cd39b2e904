/// The answer to a browser that asks whether a page may send a request (CORS preflight, section 3.2.2 of the Fetch standard).
///
/// A browser sends it without a client token, so it is answered before the client is asked for one, and by the gateway alone.
package final class Preflight: Sendable {
    /// Found by the request that is asked for; nil where none is.
    package let route: Int?
    package let answer: ProblemAnswer

    /// - Returns: nil where the request asks for nothing of that kind.
    init?(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        route: Int?,
        grant: CrossOriginGrant
    ) {
        guard head.present.contains(.accessControl), head.isOptions(bytes),
            let method = Self.value("access-control-request-method", of: head, bytes), FieldSyntax.isToken(method),
            method.utf8.count <= Self.maximumMethod
        else { return nil }
        self.route = route
        var fields = grant.fields.filter { $0.name != "Vary" }
        fields.append(ProblemAnswer.Field(name: "Vary", value: Self.vary))
        fields.append(ProblemAnswer.Field(name: "Access-Control-Allow-Methods", value: method))
        if let names = Self.value("access-control-request-headers", of: head, bytes), Self.areNames(names),
            names.utf8.count <= Self.maximumNames
        {
            fields.append(ProblemAnswer.Field(name: "Access-Control-Allow-Headers", value: names))
        }
        if Self.value("access-control-request-private-network", of: head, bytes) == "true" {
            fields.append(ProblemAnswer.Field(name: "Access-Control-Allow-Private-Network", value: "true"))
        }
        fields.append(ProblemAnswer.Field(name: "Access-Control-Max-Age", value: Self.maximumAge))
        answer = ProblemAnswer(status: 204, fields: fields)
    }

    /// In bytes. The answer has to fit in a frame of HTTP/2, and a code for a byte of a name takes up to 15 bits.
    private static let maximumNames = 7680
    private static let maximumMethod = 256

    private static let vary = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"
    /// A page that a reload takes away is not asked for again meanwhile: its requests are refused all the same.
    private static let maximumAge = "600"

    private static func value(
        _ name: StaticString,
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> String? {
        for field in head.section.fields
        where field.kind == .accessControl && bytes.equalsLowercased(field.name, name) {
            return bytes.string(field.value)
        }
        return nil
    }

    private static func areNames(_ text: String) -> Bool {
        text.split(separator: ",").allSatisfy { name in
            let bytes = Array(name.utf8)
            let range = bytes.span.trimmed(bytes.indices)
            return FieldSyntax.isToken(String(decoding: bytes[range], as: UTF8.self))
        }
    }
}
