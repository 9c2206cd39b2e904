import Crypto
import GatewayHTTP

/// The arithmetic of AWS Signature Version 4: canonical request, string to sign, key and signature.
///
/// Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html.
enum SignatureV4 {
    static let algorithm = "AWS4-HMAC-SHA256"
    /// The hash of a request without a body.
    static let emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    /// What a signature is valid for.
    struct Scope: Hashable, Sendable {
        /// `20150830`
        let date: String
        let region: String
        let service: String

        var text: String { "\(date)/\(region)/\(service)/aws4_request" }
    }

    /// How a service makes the canonical path.
    struct PathRule: Hashable, Sendable {
        /// Dot segments and empty segments are removed (RFC 3986 section 5.2.4).
        var normalizes: Bool
        /// The path is encoded once more than it is sent.
        var encodesTwice: Bool

        static let standard = PathRule(normalizes: true, encodesTwice: true)
        /// S3 takes keys as they are: `a//b` and `a/../b` are names of objects.
        static let s3 = PathRule(normalizes: false, encodesTwice: false)
    }

    struct Field: Sendable {
        /// In lower case.
        let name: String
        let value: [UInt8]
    }

    /// What is signed of a request.
    struct Request: Sendable {
        private let method: String
        private let path: [UInt8]
        private let query: [UInt8]
        /// One for each name, sorted.
        private let fields: [Field]
        private let payload: String
        /// `host;x-amz-date`
        let signedNames: String

        /// - Parameters:
        ///   - query: Without its `?`.
        ///   - fields: In the order in which they are sent. Those of one name are joined.
        ///   - payload: The hash of the body in hexadecimal, or what stands for it.
        init(
            method: String,
            path: [UInt8],
            query: [UInt8],
            fields: [Field],
            payload: String,
            pathRule: PathRule
        ) {
            self.method = method
            self.path = SignatureV4.canonicalPath(path, pathRule)
            self.query = CanonicalQuery.encoded([query])
            self.payload = payload
            self.fields = Dictionary(grouping: fields, by: \.name).sorted { $0.key < $1.key }
                .map { name, fields in
                    let values = fields.map { SignatureV4.trimmed($0.value) }
                    return Field(name: name, value: Array(values.joined(separator: [0x2C])))
                }
            signedNames = self.fields.map(\.name).joined(separator: ";")
        }

        var canonical: [UInt8] {
            var bytes = Array("\(method)\n".utf8)
            bytes += path
            bytes.append(newline)
            bytes += query
            bytes.append(newline)
            for field in fields {
                bytes += Array("\(field.name):".utf8) + field.value
                bytes.append(newline)
            }
            bytes += Array("\n\(signedNames)\n\(payload)".utf8)
            return bytes
        }
    }

    static func stringToSign(_ canonical: [UInt8], at time: String, _ scope: Scope) -> String {
        "\(algorithm)\n\(time)\n\(scope.text)\n\(Hexadecimal.text(of: SHA256.hash(data: canonical)))"
    }

    /// Signs everything of one scope.
    struct Key: Sendable {
        private let key: SymmetricKey

        /// - Parameter secret: The secret access key.
        init(_ scope: Scope, secret: Secret) {
            var key = SymmetricKey(data: secret.withValue { Array("AWS4\($0)".utf8) })
            for part in [scope.date, scope.region, scope.service, "aws4_request"] {
                key = SymmetricKey(data: HMAC<SHA256>.authenticationCode(for: Array(part.utf8), using: key))
            }
            self.key = key
        }

        func signature(of text: String) -> String {
            Hexadecimal.text(of: HMAC<SHA256>.authenticationCode(for: Array(text.utf8), using: key))
        }
    }

    /// The hash of a body.
    static func hash(_ content: borrowing Span<UInt8>) -> String {
        var hash = SHA256()
        // The bytes are only read, while they are borrowed.
        unsafe content.bytes.withUnsafeBytes { unsafe hash.update(bufferPointer: $0) }
        return Hexadecimal.text(of: hash.finalize())
    }

    /// `20150830T123600Z`
    static func timestamp(_ time: UnixTime) -> String {
        "\(time.rfc3339.prefix { $0 != "." }.filter { $0 != "-" && $0 != ":" })Z"
    }

    // MARK: Canonical forms

    private static let newline: UInt8 = 0x0A
    private static let slash: UInt8 = 0x2F

    static func canonicalPath(_ path: [UInt8], _ rule: PathRule) -> [UInt8] {
        let path = rule.normalizes ? normalized(path) : path
        guard !path.isEmpty else { return [slash] }
        // A server that does not encode twice decodes the path and encodes it in its own way.
        return encoded(rule.encodesTwice ? path : decoded(path[...]))
    }

    private static func normalized(_ path: [UInt8]) -> [UInt8] {
        var kept: [ArraySlice<UInt8>] = []
        let segments = path.split(separator: slash, omittingEmptySubsequences: true)
        for segment in segments {
            switch segment.count {
            case 1 where segment.first == 0x2E: break
            case 2 where segment.allSatisfy { $0 == 0x2E }: _ = kept.popLast()
            default: kept.append(segment)
            }
        }
        let isFolder = path.last == slash || path.suffix(2) == [slash, 0x2E] || path.suffix(3) == [slash, 0x2E, 0x2E]
        return [slash] + kept.joined(separator: [slash]) + (isFolder && !kept.isEmpty ? [slash] : [])
    }

    /// Without the whitespace around it, and with one space for each run of them.
    private static func trimmed(_ value: [UInt8]) -> [UInt8] {
        let words = value.split(omittingEmptySubsequences: true) { $0 == 0x20 || $0 == 0x09 }
        return Array(words.joined(separator: [0x20]))
    }

    static func decoded(_ text: ArraySlice<UInt8>) -> [UInt8] {
        let text = Array(text)
        return PercentEncoding.decodeLeniently(text.span, text.indices)
    }

    private static func encoded(_ path: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(path.count)
        for byte in path {
            if byte == slash { bytes.append(byte) } else { PercentEncoding.append(byte, to: &bytes) }
        }
        return bytes
    }
}
