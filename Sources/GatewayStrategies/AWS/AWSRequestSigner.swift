import GatewayHTTP
import GatewayTokens

/// Decides which region and service a request to AWS is signed for, and what the signature covers.
///
/// Clients may sign with keys of their own, even invalid ones: their signature names the region and service that they want. It is not
/// verified, because it grants nothing.
struct AWSRequestSigner: RequestSigner {
    struct Keys: Sendable {
        let id: String
        let secret: Secret
        let token: Secret?
    }

    let keys: Keys
    /// The ones that requests may be signed for; empty allows all.
    let regions: [String]
    let services: [String]

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: AWSSignatureStrategy.kind, subject: nil)
        identity.add("access_key_id", keys.id)
        identity.add("secret_access_key", secret: keys.secret)
        identity.add("session_token", secret: keys.token)
        identity.add("region", regions.joined(separator: ","))
        identity.add("service", services.joined(separator: ","))
        return identity
    }

    static let fields = ["Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-SHA256"]
    let ownedFields = Self.fields
    var usualFields: [String] {
        ["Authorization", "X-Amz-Date"] + (keys.token == nil ? [] : ["X-Amz-Security-Token"])
    }

    /// The object that a request copies, such as `bucket/key?versionId=1`
    /// (docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html). One that is named by its ARN may be anywhere.
    func otherPaths(of request: SignableRequest) -> [[UInt8]?] {
        var paths: [[UInt8]?] = []
        for field in request.fields where field.isForwarded {
            // Some servers read `_` as `-`.
            switch field.name.replacing("_", with: "-") {
            case "x-amz-copy-source": paths.append(Self.path(copied: field.value, at: request.host))
            // That of a directory bucket (RenameObject).
            case "x-amz-rename-source": paths.append(nil)
            default: break
            }
        }
        return paths
    }

    private static func path(copied source: [UInt8], at authority: String) -> [UInt8]? {
        var source = source.prefix { $0 != UInt8(ascii: "?") }
        if source.first == slash { source.removeFirst() }
        let own = Array(AWSEndpoint(authority).bucket.utf8)
        guard source.contains(slash), !source.starts(with: "arn:".utf8) else { return nil }
        guard !own.isEmpty else { return [slash] + source }
        let bucket = source.prefix { $0 != slash }
        return bucket.elementsEqual(own) ? Array(source.dropFirst(bucket.count)) : nil
    }

    private static let slash = UInt8(ascii: "/")

    func demand(of request: SignableRequest) -> SigningDemand {
        do throws(GatewayProblem) {
            let plan = try plan(for: request)
            guard case .hash = plan.payload, case .streamed = request.body else { return .head }
            return .wholeBody
        } catch {
            return .refused(error)
        }
    }

    func sign(
        _ request: SignableRequest,
        _ content: borrowing Span<UInt8>
    ) -> Result<RequestSignature, GatewayProblem> {
        do throws(GatewayProblem) {
            let plan = try plan(for: request)
            switch plan.payload {
            case .literal(let text): return .success(signature(of: request, by: plan, payload: text))
            case .chunks(let kind, let length):
                return .success(signature(of: request, by: plan, payload: kind.rawValue, chunks: (kind, length)))
            case .hash:
                guard request.body == .whole else {
                    return .failure(
                        GatewayProblem(
                            .internalError,
                            "The request cannot be signed, because its body was not collected."
                        )
                    )
                }
                return .success(signature(of: request, by: plan, payload: SignatureV4.hash(content)))
            }
        } catch {
            return .failure(error)
        }
    }

    // MARK: Responses

    var judgedStatuses: [Int] { AWSErrorResponse.statuses }

    func verdict(on response: TokenReply, isToHead: Bool) -> SignatureVerdict? {
        AWSErrorResponse.verdict(on: response, isToHead: isToHead, isTemporary: keys.token != nil)
    }

    // MARK: Signature

    /// - Parameter chunks: How the chunks of the body are signed, and the length of their data; nil for other bodies.
    private func signature(
        of request: SignableRequest,
        by plan: Plan,
        payload: String,
        chunks: (kind: ChunkSigner.Kind, length: Int)? = nil
    ) -> RequestSignature {
        let time = SignatureV4.timestamp(request.time)
        let scope = SignatureV4.Scope(date: String(time.prefix(8)), region: plan.region, service: plan.service)
        var fields = [Injection.Field(name: "X-Amz-Date", value: Secret(time))]
        if let token = keys.token { fields.append(Injection.Field(name: "X-Amz-Security-Token", value: token)) }
        if plan.sendsPayloadHash {
            fields.append(Injection.Field(name: "X-Amz-Content-SHA256", value: Secret(payload)))
        }
        let query = plan.query ?? request.query
        let signed = SignatureV4.Request(
            method: request.method,
            path: request.path,
            query: query ?? [],
            fields: Self.signedFields(of: request, adding: fields),
            payload: payload,
            pathRule: plan.isS3 ? .s3 : .standard
        )
        let text = SignatureV4.stringToSign(signed.canonical, at: time, scope)
        let key = SignatureV4.Key(scope, secret: keys.secret)
        let signature = key.signature(of: text)
        let value =
            "\(SignatureV4.algorithm) Credential=\(keys.id)/\(scope.text), SignedHeaders=\(signed.signedNames), "
            + "Signature=\(signature)"
        fields.append(Injection.Field(name: "Authorization", value: Secret(value)))
        let body = chunks.map { chunks in
            ChunkSigner(chunks.kind, key, at: time, scope, seed: signature, length: chunks.length)
        }
        return RequestSignature(fields: fields, query: plan.query, body: body)
    }

    /// `Host`, `Content-Type`, `Content-MD5`, and all fields that begin with `x-amz-`, which AWS requires to be signed. Others are left out,
    /// because a proxy on the way may change them.
    private static func signedFields(
        of request: SignableRequest,
        adding own: [Injection.Field]
    ) -> [SignatureV4.Field] {
        let sent =
            request.fields.lazy.filter(\.isForwarded).map { SignatureV4.Field(name: $0.name, value: $0.value) }
            + (request.added + own).map { field in
                SignatureV4.Field(name: field.name.lowercased(), value: field.value.withValue { Array($0.utf8) })
            }
        let host = SignatureV4.Field(name: "host", value: Array(request.host.utf8))
        return [host] + sent.filter { $0.name.hasPrefix("x-amz-") || alsoSigned.contains($0.name) }
    }

    private static let alsoSigned: Set<String> = ["content-md5", "content-type"]

    // MARK: Plan

    private enum Payload {
        case literal(String)
        /// The hash of the body.
        case hash
        /// Each chunk of the body is signed.
        ///
        /// - Parameter length: The length of the data in the chunks.
        case chunks(ChunkSigner.Kind, length: Int)
    }

    /// What is decided before anything is computed.
    private struct Plan {
        let region: String
        let service: String
        let payload: Payload
        let sendsPayloadHash: Bool
        /// nil if the client's query stays.
        let query: [UInt8]?

        var isS3: Bool { AWSRequestSigner.isS3(service) }
    }

    private static func isS3(_ service: String) -> Bool {
        service == "s3" || service == "s3express" || service == "s3-object-lambda" || service == "s3-outposts"
    }

    /// Whether a string can be a region or a service in a scope.
    static func isScopePart(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count) && text.utf8.allSatisfy { $0.isScopeCharacter }
    }

    private func plan(for request: SignableRequest) throws(GatewayProblem) -> Plan {
        let asked = try ClientSignature(of: request)
        let host = AWSEndpoint(request.host)
        let region = try choose("region", regions, asked.region, host.region, at: request.host)
        if let own = host.region, !host.isGlobal, own != region {
            throw Self.forbidden(
                "\(request.host) is in the region \(own), but the request would be signed for \(region)."
            )
        }
        let service = try choose("service", services, asked.service, host.service, at: request.host)
        if services.isEmpty, let own = host.service, own != service {
            throw Self.forbidden(
                "\(request.host) belongs to the service \(own), but the request would be signed for \(service)."
                    + " If that is correct, set service: \(service) in the credential."
            )
        }
        let declared = try declaredPayload(request, asked)
        return Plan(
            region: region,
            service: service,
            payload: try payload(of: request, declared: declared, isS3: Self.isS3(service)),
            sendsPayloadHash: declared != nil || Self.isS3(service),
            query: asked.query
        )
    }

    /// - Parameters:
    ///   - allowed: The key of the configuration.
    ///   - asked: What the client signed for.
    ///   - host: What the host says.
    private func choose(
        _ key: String,
        _ allowed: [String],
        _ asked: String?,
        _ host: String?,
        at authority: String
    ) throws(GatewayProblem) -> String {
        let fixed = allowed.count == 1 ? allowed.first : nil
        guard let chosen = asked ?? fixed ?? host else {
            throw GatewayProblem(
                .requestRefused,
                "The gateway does not know which \(key) to sign the request for, and \(authority) does not name one. Set \(key) in the"
                    + " credential, or have the client sign with keys of its own, which need not be valid."
            )
        }
        guard allowed.isEmpty || allowed.contains(chosen) else {
            throw Self.forbidden(
                "The request is for the \(key) \(chosen), but the credential allows only \(allowed.joined(separator: ", ")) (\(key))."
            )
        }
        return chosen
    }

    private static func forbidden(_ detail: String) -> GatewayProblem { GatewayProblem(.routeForbidden, detail) }

    // MARK: Body

    /// `x-amz-content-sha256` of the client; in the query of a presigned request, too.
    private func declaredPayload(
        _ request: SignableRequest,
        _ asked: ClientSignature
    ) throws(GatewayProblem) -> String? {
        let declared = request.values(of: "x-amz-content-sha256") + (asked.payload.map { [$0] } ?? [])
        guard declared.count < 2 else {
            throw GatewayProblem(.requestRefused, "The request has more than one x-amz-content-sha256.")
        }
        return declared.first
    }

    /// What is signed for the body (docs.aws.amazon.com/AmazonS3/latest/API/sigv4-auth-using-authorization-header.html).
    private func payload(
        of request: SignableRequest,
        declared: String?,
        isS3: Bool
    ) throws(GatewayProblem) -> Payload {
        switch declared {
        case "UNSIGNED-PAYLOAD"?, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"?:
            guard request.isTLS else {
                throw GatewayProblem(
                    .requestRefused,
                    "An unsigned body is sent only over TLS, but the upstream is http. Send the body's hash in x-amz-content-sha256."
                )
            }
            return .literal(declared ?? "")
        case let text? where text.utf8.count == 64 && text.utf8.allSatisfy { $0.hexValue != nil }:
            // The service verifies it.
            return .literal(text)
        case let text?:
            guard let kind = ChunkSigner.Kind(rawValue: text) else {
                throw GatewayProblem(
                    .requestRefused,
                    "x-amz-content-sha256 is neither a SHA-256 in hexadecimal nor UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER,"
                        + " \(ChunkSigner.Kind.plain.rawValue) or \(ChunkSigner.Kind.trailers.rawValue)."
                )
            }
            return .chunks(kind, length: try Self.decodedLength(of: request))
        case nil:
            if request.body == .none { return .literal(SignatureV4.emptyHash) }
            return isS3 && request.isTLS ? .literal("UNSIGNED-PAYLOAD") : .hash
        }
    }

    /// `x-amz-decoded-content-length`: the length of a body without the framing of its chunks.
    private static func decodedLength(of request: SignableRequest) throws(GatewayProblem) -> Int {
        guard request.body != .none else {
            throw GatewayProblem(
                .requestRefused,
                "x-amz-content-sha256 announces a body in signed chunks, but the request has no body."
            )
        }
        let lengths = request.values(of: "x-amz-decoded-content-length")
        guard lengths.count == 1, let text = lengths.first, text.utf8.allSatisfy(\.isDigit), let length = Int(text)
        else {
            throw GatewayProblem(
                .requestRefused,
                "A body in signed chunks needs x-amz-decoded-content-length with the length of its data."
            )
        }
        return length
    }
}

/// What the signature of a client asks for. It is read from `Authorization`, or from the query of a presigned request.
private struct ClientSignature {
    /// nil for a request that is not signed, and so is ``service``.
    private(set) var region: String?
    private(set) var service: String?
    /// What is sent in place of the query; nil if that stays.
    ///
    /// The parameters of a signature do not reach the upstream, and neither does a session token, which may be the client's token for the
    /// gateway.
    private(set) var query: [UInt8]?
    /// The `X-Amz-Content-Sha256` of a presigned request.
    private(set) var payload: String?

    private static let sessionToken = "x-amz-security-token"
    private static let signature = Set(
        [
            "x-amz-algorithm", "x-amz-content-sha256", "x-amz-credential", "x-amz-date", "x-amz-expires",
            sessionToken, "x-amz-signature", "x-amz-signedheaders",
        ]
    )
    /// AWS accepts requests that are dated this far ahead.
    private static let tolerance = Duration.seconds(15 * 60)
    private static let maximumLifetime = 604_800

    init(of request: SignableRequest) throws(GatewayProblem) {
        let inFields = request.values(of: "authorization").filter { $0.hasPrefix("AWS4-") }
        let parameters = Self.parameters(of: request.query ?? [])
        let names = Set(parameters.map(\.name))
        let isPresigned = names.contains("x-amz-signature") || names.contains("x-amz-algorithm")
        guard inFields.count + (isPresigned ? 1 : 0) < 2 else {
            throw GatewayProblem(.requestRefused, "The request has more than one signature.")
        }
        guard !names.contains("awsaccesskeyid") || !names.contains("signature") else {
            throw GatewayProblem(
                .requestRefused,
                "The presigned URL has a signature of version 2, which AWS no longer accepts everywhere. Have the client sign with version 4"
                    + " (signature_version: s3v4)."
            )
        }
        guard isPresigned else {
            if names.contains(Self.sessionToken) { query = Self.joined(parameters) { $0 != Self.sessionToken } }
            guard !inFields.isEmpty else { return }
            let words = (inFields.first ?? "").split { $0 == " " || $0 == "," }
            let credential = words.dropFirst().first { $0.hasPrefix("Credential=") }?.dropFirst("Credential=".count)
            let scope = try Self.scope(String(words.first ?? ""), credential.map(String.init))
            (region, service) = (scope.region, scope.service)
            return
        }
        var values: [String: String] = [:]
        for parameter in parameters where Self.signature.contains(parameter.name) {
            guard values.updateValue(parameter.value, forKey: parameter.name) == nil else {
                throw GatewayProblem(.requestRefused, "The request has \(parameter.name) more than once in its query.")
            }
        }
        let scope = try Self.scope(values["x-amz-algorithm"] ?? "", values["x-amz-credential"])
        (region, service) = (scope.region, scope.service)
        try Self.checkTime(values["x-amz-date"], values["x-amz-expires"], at: request.time)
        payload = values["x-amz-content-sha256"]
        query = Self.joined(parameters) { !Self.signature.contains($0) }
    }

    private typealias Parameter = (name: String, value: String, bytes: ArraySlice<UInt8>)

    private static func joined(_ parameters: [Parameter], where isKept: (String) -> Bool) -> [UInt8] {
        Array(parameters.filter { isKept($0.name) }.map(\.bytes).joined(separator: [0x26]))
    }

    private static func parameters(of query: [UInt8]) -> [Parameter] {
        query.split(separator: 0x26, omittingEmptySubsequences: false).map { pair in
            let name = pair.prefix { $0 != 0x3D }
            let value = SignatureV4.decoded(pair.dropFirst(name.count + 1))
            return (
                String(decoding: SignatureV4.decoded(name), as: UTF8.self).lowercased(),
                String(decoding: value, as: UTF8.self), pair
            )
        }
    }

    /// - Parameter credential: `AKIDEXAMPLE/20150830/us-east-1/s3/aws4_request`; the ID may have slashes.
    private static func scope(
        _ algorithm: String,
        _ credential: String?
    ) throws(GatewayProblem) -> (region: String, service: String) {
        guard algorithm == SignatureV4.algorithm else {
            throw GatewayProblem(
                .requestRefused,
                "The client signed with an algorithm other than \(SignatureV4.algorithm), the only one that is supported."
            )
        }
        let parts = (credential ?? "").split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard parts.count >= 5, parts[parts.count - 1] == "aws4_request",
            AWSRequestSigner.isScopePart(parts[parts.count - 3]), AWSRequestSigner.isScopePart(parts[parts.count - 2])
        else {
            throw GatewayProblem(
                .requestRefused,
                "The client's signature has no valid Credential (KEY/DATE/REGION/SERVICE/aws4_request)."
            )
        }
        return (parts[parts.count - 3], parts[parts.count - 2])
    }

    /// A presigned URL is handed out for a limited time, which still applies when its signature is replaced.
    private static func checkTime(
        _ date: String?,
        _ lifetime: String?,
        at now: UnixTime
    ) throws(GatewayProblem) {
        guard let date = date.flatMap(time), let lifetime, let seconds = Int(lifetime),
            (0...maximumLifetime).contains(seconds)
        else {
            throw GatewayProblem(
                .requestRefused,
                "The presigned URL has no valid X-Amz-Date and X-Amz-Expires (at most \(maximumLifetime) seconds)."
            )
        }
        guard now < date + .seconds(seconds) else {
            throw GatewayProblem(.routeForbidden, "The presigned URL has expired; make a new one.")
        }
        guard date < now + tolerance else {
            throw GatewayProblem(
                .routeForbidden,
                "The presigned URL is dated more than 15 minutes ahead; set the clock of the client that made it."
            )
        }
    }

    /// `20150830T123600Z`
    private static func time(_ text: String) -> UnixTime? {
        let digits = Array(text.utf8)
        guard digits.count == 16, digits.allSatisfy({ $0 < 0x80 }) else { return nil }
        func part(_ range: Range<Int>) -> String { String(decoding: digits[range], as: UTF8.self) }
        let date = "\(part(0..<4))-\(part(4..<6))-\(part(6..<8))"
        return UnixTime(
            rfc3339: "\(date)\(part(8..<9))\(part(9..<11)):\(part(11..<13)):\(part(13..<15))\(part(15..<16))"
        )
    }
}

extension UInt8 {
    fileprivate var isScopeCharacter: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
        default: false
        }
    }
}
