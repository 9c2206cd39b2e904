/// Keeps the credential of a query parameter out of fields that repeat URIs (``FieldKind/uriReference``).
///
/// An upstream that redirects often repeats the query that it was sent. It may decode the query before, or encode it again.
/// So everything is compared decoded, without regard to case.
package struct CredentialEcho: Sendable {
    /// Folded, as ``fold(_:)`` does it.
    private let name: [UInt8]
    private let secret: SecretBytes

    package init(_ parameter: Injection.QueryParameter) {
        name = Self.fold(Array(parameter.name.utf8))
        secret = SecretBytes(parameter.value.withValue { Self.fold(Array($0.utf8)) })
    }

    /// Removes the injected parameter. A field that has the secret elsewhere is dropped.
    package func rewrite(_ value: [UInt8]) -> FieldRewrite {
        secret.withValue { secret in
            guard Self.repeats(secret, in: value) else { return .unchanged }
            let rest = removingParameter(from: value, secret)
            return rest.isEmpty || Self.repeats(secret, in: rest) ? .dropped : .replaced(rest)
        }
    }

    // MARK: Anywhere in the value

    /// Who encodes a URI more often than this hides something: the field is dropped.
    private static let maximumDecodings = 8

    private static func repeats(_ secret: [UInt8], in value: [UInt8]) -> Bool {
        var text = value
        for _ in 0..<maximumDecodings {
            if contains(secret, in: fold(text)) { return true }
            let decoded = decode(text)
            guard decoded.count < text.count else { return false }
            text = decoded
        }
        return true
    }

    private static func contains(_ word: [UInt8], in text: [UInt8]) -> Bool {
        guard word.count <= text.count else { return false }
        return (0...text.count - word.count).contains { text[$0...].starts(with: word) }
    }

    private static func decode(_ text: [UInt8]) -> [UInt8] {
        PercentEncoding.decodeLeniently(text.span, 0..<text.count)
    }

    /// Lower case, `+` as the space that it can mean in a form, and without the backslashes of a quoted string.
    private static func fold(_ text: [UInt8]) -> [UInt8] {
        text.filter { $0 != UInt8(ascii: "\\") }.map { $0 == UInt8(ascii: "+") ? 0x20 : $0.asciiLowercased }
    }

    // MARK: The parameter

    /// A piece of the value, with the byte that stands before it.
    private struct Segment {
        /// nil at the beginning of the value.
        var lead: UInt8?
        var content: [UInt8] = []

        var bytes: [UInt8] { (lead.map { [$0] } ?? []) + content }
        var isBehindSeparator: Bool { lead == UInt8(ascii: "&") || lead == UInt8(ascii: ";") }
        var mayBeParameter: Bool {
            isBehindSeparator || lead == UInt8(ascii: "?") || lead == UInt8(ascii: "#")
        }
    }

    /// What ends a parameter: a delimiter of the URI, or of the field that the URI stands in.
    private static let ends: Set<UInt8> = Set("?&;#<>\"' \t".utf8)

    private static func segments(_ value: [UInt8]) -> [Segment] {
        var segments = [Segment()]
        for byte in value {
            if ends.contains(byte) {
                segments.append(Segment(lead: byte))
            } else {
                segments[segments.count - 1].content.append(byte)
            }
        }
        return segments
    }

    private func removingParameter(from value: [UInt8], _ secret: [UInt8]) -> [UInt8] {
        var segments = Self.segments(value)
        var rest: [UInt8] = []
        for index in segments.indices {
            let segment = segments[index]
            guard segment.mayBeParameter, isInjected(segment.content, secret) else {
                rest += segment.bytes
                continue
            }
            // The question mark stays if another parameter follows.
            let next = index + 1
            if !segment.isBehindSeparator, next < segments.count, segments[next].isBehindSeparator {
                segments[next].lead = segment.lead
            }
        }
        return rest
    }

    private func isInjected(_ parameter: [UInt8], _ secret: [UInt8]) -> Bool {
        guard let equals = parameter.firstIndex(of: UInt8(ascii: "=")) else { return false }
        return Self.fold(Self.decode(Array(parameter[..<equals]))) == name
            && Self.fold(Self.decode(Array(parameter[(equals + 1)...]))) == secret
    }
}
