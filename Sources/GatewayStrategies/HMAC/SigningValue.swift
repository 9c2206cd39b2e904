import Crypto
import GatewayHTTP
import GatewayTokens

/// A hash function of an HMAC (RFC 2104), or of a digest.
///
/// MD5 and SHA-1 do not protect documents any more. APIs that still ask for them get what they ask for.
enum HashAlgorithm: String, CaseIterable, Sendable {
    case md5
    case sha1
    case sha256
    case sha384
    case sha512

    func digest(of bytes: [UInt8]) -> [UInt8] {
        switch self {
        case .md5: Array(Insecure.MD5.hash(data: bytes))
        case .sha1: Array(Insecure.SHA1.hash(data: bytes))
        case .sha256: Array(SHA256.hash(data: bytes))
        case .sha384: Array(SHA384.hash(data: bytes))
        case .sha512: Array(SHA512.hash(data: bytes))
        }
    }

    func authenticationCode(of message: [UInt8], with key: SymmetricKey) -> [UInt8] {
        switch self {
        case .md5: Array(HMAC<Insecure.MD5>.authenticationCode(for: message, using: key))
        case .sha1: Array(HMAC<Insecure.SHA1>.authenticationCode(for: message, using: key))
        case .sha256: Array(HMAC<SHA256>.authenticationCode(for: message, using: key))
        case .sha384: Array(HMAC<SHA384>.authenticationCode(for: message, using: key))
        case .sha512: Array(HMAC<SHA512>.authenticationCode(for: message, using: key))
        }
    }
}

/// What a name in double braces stands for, in a message that is signed and in what is sent with the signature.
enum SigningValue: Hashable, Sendable {
    enum TimeFormat: String, CaseIterable, Sendable {
        /// Seconds since 1970.
        case seconds = ""
        /// Milliseconds since 1970.
        case milliseconds = ".ms"
        /// `2026-03-01`, in UTC.
        case date = ".date"
        /// `2026-03-01T09:30:00Z`
        case iso = ".iso"
        /// `2026-03-01T09:30:00.250Z`
        case isoMilliseconds = ".iso_ms"
        /// `Sun, 01 Mar 2026 09:30:00 GMT` (RFC 9110 section 5.6.7).
        case http = ".http"
        /// `Sun, 01 Mar 2026 09:30:00 -0000` (RFC 5322 section 3.3), as Python writes it.
        case mail = ".rfc2822"

        func text(of time: UnixTime) -> String {
            switch self {
            case .seconds: String(time.milliseconds / 1000)
            case .milliseconds: String(time.milliseconds)
            case .date: String(time.rfc3339.prefix(10))
            case .iso: "\(time.rfc3339.dropLast(5))Z"
            case .isoMilliseconds: time.rfc3339
            case .http: time.httpDate
            case .mail: "\(time.httpDate.dropLast(3))-0000"
            }
        }
    }

    /// What a digest is made of.
    enum Digested: String, CaseIterable, Sendable {
        case body
        /// The string of the configuration, with its values.
        case innerMessage = "inner_message"
    }

    enum DigestForm: String, CaseIterable, Sendable {
        case hex = ""
        case base64 = ".base64"
        case bytes = ".bytes"
    }

    case method
    case host
    /// The path, and the query with its question mark.
    case target
    case path
    /// Without its question mark, as it is sent.
    case query
    /// The parameters of the query in the order of their names and values, each as it is sent.
    case sortedQuery
    /// The parameters of the query, sorted and in one encoding.
    case encodedQuery
    /// The parameters of the query and of a form in the body, sorted and in one encoding.
    case parameters
    /// The decoded value of a parameter of the query, or else of a form in the body; nothing if there is none.
    case parameter(String)
    /// A header field, by its name in lower case.
    case field(String)
    case body
    case digest(Digested, HashAlgorithm, DigestForm)
    case time(TimeFormat)
    case expires(TimeFormat)
    case nonce
    case keyID
    /// ASCII letters in lower case.
    indirect case lowercased(SigningValue)
    /// Encoded once more as a whole, as OAuth 1.0 joins its parts (RFC 5849 section 3.6).
    indirect case percentEncoded(SigningValue)

    /// Those with a name of their own: all but header fields and parameters.
    static let named: [String: SigningValue] = {
        var named: [String: SigningValue] = [
            "method": .method, "method.lower": .lowercased(.method), "host": .host, "target": .target, "path": .path,
            "path.percent": .percentEncoded(.path), "query": .query, "query.sorted": .sortedQuery,
            "query.encoded": .encodedQuery, "parameters": .parameters,
            "parameters.percent": .percentEncoded(.parameters), "body": .body, "nonce": .nonce, "key_id": .keyID,
        ]
        for format in TimeFormat.allCases {
            named["time\(format.rawValue)"] = .time(format)
            named["expires\(format.rawValue)"] = .expires(format)
        }
        for digested in Digested.allCases {
            for algorithm in HashAlgorithm.allCases {
                for form in DigestForm.allCases {
                    let name = "\(digested.rawValue).\(algorithm.rawValue)\(form.rawValue)"
                    named[name] = .digest(digested, algorithm, form)
                }
            }
        }
        return named
    }()

    /// The names of those that may be sent with a signature: the gateway writes them, so they fit into a header field.
    static let sendable = Set(named.filter { $0.value.isSendable }.keys)

    /// The names of those that the key can be derived with: the same for each request, and known before it.
    static let derivable = Set(
        named.filter {
            if case .time = $0.value { true } else { false }
        }.keys
    )

    private static let fieldPrefix = "header."
    private static let parameterPrefix = "parameter."
    private static let lowercase = ".lower"

    /// - Parameter name: One of ``named``; or `header.` and the name of a header field, and perhaps `.lower`; or `parameter.` and
    ///   the name of a parameter.
    init?(_ name: String) {
        if let value = Self.named[name] {
            self = value
        } else if name.hasPrefix(Self.fieldPrefix) {
            let field = name.dropFirst(Self.fieldPrefix.count).lowercased()
            self =
                field.hasSuffix(Self.lowercase)
                ? .lowercased(.field(String(field.dropLast(Self.lowercase.count)))) : .field(field)
        } else if name.hasPrefix(Self.parameterPrefix), name != Self.parameterPrefix {
            self = .parameter(String(name.dropFirst(Self.parameterPrefix.count)))
        } else {
            return nil
        }
    }

    private var isSendable: Bool {
        switch self {
        case .digest(let digested, _, let form): digested == .body && form != .bytes
        case .time, .expires, .nonce, .keyID: true
        default: false
        }
    }

    /// The header field that it reads, in lower case.
    var field: String? {
        switch self {
        case .field(let name): name
        case .lowercased(let value), .percentEncoded(let value): value.field
        default: nil
        }
    }

    var isBody: Bool {
        switch self {
        case .body, .digest(.body, _, _): true
        default: false
        }
    }

    var isInnerMessage: Bool { if case .digest(.innerMessage, _, _) = self { true } else { false } }

    /// Whether it reads a form in the body.
    var isForm: Bool {
        switch self {
        case .parameters, .parameter: true
        case .lowercased(let value), .percentEncoded(let value): value.isForm
        default: false
        }
    }
}

/// One request that is being signed.
struct SigningInput {
    let request: SignableRequest
    /// The query that is sent, without the signature.
    var query: [UInt8]
    /// The fields that are sent with the signature, without those that hold it.
    var fields: [Injection.Field] = []
    let body: [UInt8]
    /// What digests of the inner message are made of.
    var innerMessage: [UInt8] = []
    let nonce: String
    let keyID: String
    let lifetime: Duration

    func text(of value: SigningValue) -> String { String(decoding: bytes(of: value), as: UTF8.self) }

    private func bytes(of value: SigningValue) -> [UInt8] {
        var bytes: [UInt8] = []
        append(value, to: &bytes)
        return bytes
    }

    func append(_ value: SigningValue, to bytes: inout [UInt8]) {
        switch value {
        case .method: bytes += request.method.utf8
        case .host: bytes += request.host.utf8
        case .target: bytes += query.isEmpty ? request.path : request.path + [UInt8(ascii: "?")] + query
        case .path: bytes += request.path
        case .query: bytes += query
        case .sortedQuery: bytes += CanonicalQuery.sorted(query)
        case .encodedQuery: bytes += CanonicalQuery.encoded([query])
        case .parameters: bytes += CanonicalQuery.encoded(queryAndForm)
        case .parameter(let name): bytes += CanonicalQuery.value(of: name, in: queryAndForm) ?? []
        case .field(let name): append(field: name, to: &bytes)
        case .body: bytes += body
        case .digest(let digested, let algorithm, let form):
            let digest = algorithm.digest(of: digested == .body ? body : innerMessage)
            switch form {
            case .hex: bytes += Hexadecimal.text(of: digest).utf8
            case .base64: bytes += Base64.encode(digest).utf8
            case .bytes: bytes += digest
            }
        case .time(let format): bytes += format.text(of: request.time).utf8
        case .expires(let format): bytes += format.text(of: request.time + lifetime).utf8
        case .nonce: bytes += nonce.utf8
        case .keyID: bytes += keyID.utf8
        case .lowercased(let value): bytes += self.bytes(of: value).map(\.asciiLowercased)
        case .percentEncoded(let value): for byte in self.bytes(of: value) { PercentEncoding.append(byte, to: &bytes) }
        }
    }

    private var queryAndForm: [[UInt8]] { request.hasForm ? [query, body] : [query] }

    /// The value that the upstream gets; several are joined with a comma (RFC 9110 section 5.3), and none is empty.
    private func append(field name: String, to bytes: inout [UInt8]) {
        let own = (fields + request.added).filter { $0.name.lowercased() == name }
        let values =
            own.isEmpty
            ? request.fields.filter { $0.name == name && $0.isForwarded }.map(\.value)
            : own.map { $0.value.withValue { Array($0.utf8) } }
        bytes += values.joined(separator: ", ".utf8)
    }
}

extension SignableRequest {
    /// Whether the body is a form whose parameters can be read.
    var hasForm: Bool {
        values(of: "content-type").contains {
            let type = $0.prefix { $0 != ";" }.lowercased()
            return type.split(separator: " ").first == "application/x-www-form-urlencoded"
        }
    }
}
