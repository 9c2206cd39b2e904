import Crypto
import GatewayHTTP
import GatewayTokens

/// Signs requests with a shared key: an HMAC (RFC 2104) over a message that the configuration describes.
struct HMACSigner: RequestSigner {
    enum Encoding: String, CaseIterable, Sendable {
        case hex
        case upperHex = "hex_upper"
        case base64
        case base64url

        func text(of bytes: [UInt8]) -> String {
            switch self {
            case .hex: Hexadecimal.text(of: bytes)
            case .upperHex: Hexadecimal.text(of: bytes).uppercased()
            case .base64: Base64.encode(bytes)
            case .base64url: Base64.encodeURL(bytes)
            }
        }
    }

    /// The message, compiled from its template.
    struct Message: Sendable {
        private enum Piece: Hashable {
            case text([UInt8])
            case value(SigningValue)
        }

        private let pieces: [Piece]

        /// - Parameter template: Each of its names is that of a ``SigningValue``.
        init(_ template: Template) {
            pieces = template.parts.compactMap { part in
                switch part {
                case .text(let text): .text(Array(text.utf8))
                case .name(let name): SigningValue(name).map { .value($0) }
                }
            }
        }

        var values: [SigningValue] {
            pieces.compactMap { piece in
                guard case .value(let value) = piece else { return nil }
                return value
            }
        }

        func bytes(for input: SigningInput) -> [UInt8] {
            var bytes: [UInt8] = []
            for piece in pieces {
                switch piece {
                case .text(let text): bytes += text
                case .value(let value): input.append(value, to: &bytes)
                }
            }
            return bytes
        }
    }

    struct Key: Sendable {
        private let bytes: SymmetricKey
        private let chain: [Message]

        /// - Parameter chain: Messages that are signed one after the other, each with the code of the one before it as key. The
        ///   last code is the key of the request.
        init(_ bytes: [UInt8], chain: [Message]) {
            self.bytes = SymmetricKey(data: bytes)
            self.chain = chain
        }

        func derived(by algorithm: HashAlgorithm, for input: SigningInput) -> SymmetricKey {
            chain.reduce(bytes) { key, message in
                SymmetricKey(data: algorithm.authenticationCode(of: message.bytes(for: input), with: key))
            }
        }
    }

    /// What the signature is called in `apply`.
    static let signature = "signature"

    let identity: GrantIdentity
    let ownedFields: [String]
    private let algorithm: HashAlgorithm
    private let key: Key
    private let keyID: String
    private let innerMessage: Message?
    private let message: Message
    private let encoding: Encoding
    private let lifetime: Duration
    private let placement: TokenPlacement
    /// What is sent with the signature, by its name in `apply`.
    private let sent: [String: SigningValue]
    private let needsBody: Bool
    private let needsForm: Bool

    init(
        identity: GrantIdentity,
        algorithm: HashAlgorithm,
        key: Key,
        keyID: String?,
        innerMessage: Message?,
        message: Message,
        encoding: Encoding,
        lifetime: Duration,
        placement: TokenPlacement
    ) {
        self.identity = identity
        self.algorithm = algorithm
        self.key = key
        self.keyID = keyID ?? ""
        self.innerMessage = innerMessage
        self.message = message
        self.encoding = encoding
        self.lifetime = lifetime
        self.placement = placement
        ownedFields = placement.fieldNames
        sent = placement.names.reduce(into: [:]) { $0[$1] = SigningValue($1) }
        let values = message.values + (innerMessage?.values ?? []) + sent.values
        needsBody = values.contains(where: \.isBody)
        needsForm = values.contains(where: \.isForm)
    }

    func plan(for request: SignableRequest) -> Result<any SigningPlan, GatewayProblem> {
        .success(Plan(self, request))
    }

    private final class Plan: SigningPlan {
        private let signer: HMACSigner
        private let request: SignableRequest

        init(_ signer: HMACSigner, _ request: SignableRequest) {
            self.signer = signer
            self.request = request
        }

        var needsBody: Bool {
            request.hasBody && (signer.needsBody || signer.needsForm && request.hasForm)
        }

        func sign(at time: UnixTime, _ content: borrowing Span<UInt8>) -> Result<RequestSignature, GatewayProblem> {
            var request = request
            request.time = time
            return signer.sign(request, content, nonce: Hexadecimal.random(bytes: 16))
        }
    }

    func sign(
        _ request: SignableRequest,
        _ content: borrowing Span<UInt8>,
        nonce: String
    ) -> Result<RequestSignature, GatewayProblem> {
        if needsForm, request.hasForm, CanonicalQuery.count(in: content) > CanonicalQuery.maximumOfForm {
            let detail =
                "The signature covers the parameters of the form, and it has more than \(CanonicalQuery.maximumOfForm)."
            return .failure(GatewayProblem(.contentTooLarge, detail))
        }
        var values: [String: Secret] = [:]
        var input = SigningInput(
            request: request,
            query: Self.query(of: request, without: placement.parameterNames),
            body: Self.bytes(content),
            nonce: nonce,
            keyID: keyID,
            lifetime: lifetime
        )
        for (name, value) in sent { values[name] = Secret(input.text(of: value)) }
        // What is sent with the signature is part of the request that is signed.
        input.fields = placement.injection(of: values).fields
        let unsigned = placement.parameters(of: values)
        for parameter in unsigned { Self.append(parameter, to: &input.query) }
        if let innerMessage { input.innerMessage = innerMessage.bytes(for: input) }
        let key = key.derived(by: algorithm, for: input)
        let code = algorithm.authenticationCode(of: message.bytes(for: input), with: key)
        values[Self.signature] = Secret(encoding.text(of: code))
        var query = input.query
        for parameter in placement.parameters(of: values) where !unsigned.contains(parameter) {
            Self.append(parameter, to: &query)
        }
        return .success(
            RequestSignature(
                fields: placement.injection(of: values).fields,
                query: placement.parameterNames.isEmpty ? nil : query
            )
        )
    }

    private static func bytes(_ content: borrowing Span<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        unsafe content.withUnsafeBufferPointer { unsafe bytes.append(contentsOf: $0) }
        return bytes
    }

    /// What the client sent without the parameters that are set here: one of theirs may not stand beside ours.
    private static func query(of request: SignableRequest, without names: [String]) -> [UInt8] {
        var query = request.query ?? []
        for name in names {
            query = TargetRewrite.kept(query.span, 0..<query.count, without: PercentEncoding.bytes(of: name))
            // What is kept ends with a separator.
            if !query.isEmpty { query.removeLast() }
        }
        return query
    }

    private static func append(_ parameter: Injection.QueryParameter, to query: inout [UInt8]) {
        if !query.isEmpty { query.append(UInt8(ascii: "&")) }
        query += PercentEncoding.bytes(of: parameter.name) + [UInt8(ascii: "=")]
        query += parameter.value.withValue { PercentEncoding.bytes(of: $0) }
    }
}
