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
    /// Allowed regions and services; empty allows all.
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

    /// The last two belong to signatures that are not made here: those of S3 sessions
    /// (docs.aws.amazon.com/AmazonS3/latest/API/API_CreateSession.html), and those of version 4a.
    static let fields = [
        "Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-SHA256", "X-Amz-S3session-Token",
        "X-Amz-Region-Set",
    ]
    let ownedFields = Self.fields
    var usualFields: [String] {
        ["Authorization", "X-Amz-Date"] + (keys.token == nil ? [] : ["X-Amz-Security-Token"])
    }

    /// The object that a request copies, such as `bucket/key?versionId=1`
    /// (docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html). One that is named by its ARN may be anywhere.
    func otherPaths(of request: SignableRequest) -> [[UInt8]?] {
        // That of a directory bucket (RenameObject).
        let renamed = Self.values(of: "x-amz-rename-source", in: request).map { _ -> [UInt8]? in nil }
        return renamed + Self.copiedPaths(of: request, from: AWSEndpoint(request.host).bucket)
    }

    private static func copiedPaths(of request: SignableRequest, from bucket: @autoclosure () -> String) -> [[UInt8]?] {
        values(of: "x-amz-copy-source", in: request).map { path(copied: $0, from: bucket()) }
    }

    /// Values of fields that are forwarded. Some servers read `_` as `-`.
    private static func values(of name: String, in request: SignableRequest) -> [[UInt8]] {
        request.fields.compactMap { field in
            guard field.isForwarded, field.name.utf8.count == name.utf8.count else { return nil }
            return field.name.replacing("_", with: "-") == name ? field.value : nil
        }
    }

    /// - Parameter bucket: The bucket in the host name; empty if the path names it.
    private static func path(copied source: [UInt8], from bucket: String) -> [UInt8]? {
        var source = source.prefix { $0 != UInt8(ascii: "?") }
        if source.first == slash { source.removeFirst() }
        guard source.contains(slash), !isARN(source) else { return nil }
        guard !bucket.isEmpty else { return [slash] + source }
        let name = source.prefix { $0 != slash }
        return name.elementsEqual(bucket.utf8) ? Array(source.dropFirst(name.count)) : nil
    }

    /// The service decodes the value.
    private static func isARN(_ source: ArraySlice<UInt8>) -> Bool {
        let name = SignatureV4.decoded(source).drop { $0 == slash }.prefix(4)
        return name.map(\.asciiLowercased).elementsEqual("arn:".utf8)
    }

    private static let slash = UInt8(ascii: "/")

    func plan(for request: SignableRequest) -> Result<any SigningPlan, GatewayProblem> {
        do throws(GatewayProblem) {
            let asked = try ClientSignature(of: request)
            if let problem = asked.lifetime?.refusal(at: request.time) { throw problem }
            let host = AWSEndpoint(request.host)
            let region = try region(of: asked, at: host, request.host)
            let service = try service(of: asked, at: host, request.host)
            if !host.bucket.isEmpty, Self.copiedPaths(of: request, from: host.bucket).contains(nil) {
                throw Self.forbidden(
                    "\(request.host) leads to one bucket, but the request copies from elsewhere (x-amz-copy-source)."
                )
            }
            let declared = try declaredPayload(request, asked)
            let isS3 = Self.isS3(service)
            let plan = AWSSigningPlan(
                request,
                keys: keys,
                region: region,
                service: service,
                isS3: isS3,
                payload: try payload(of: request, declared: declared, isS3: isS3),
                sendsPayloadHash: declared != nil || isS3,
                query: asked.query,
                lifetime: asked.lifetime
            )
            return .success(plan)
        } catch {
            return .failure(error)
        }
    }

    // MARK: Responses

    var judgedStatuses: [Int] { AWSErrorResponse.statuses }

    func verdict(on response: TokenReply, isToHead: Bool) -> SignatureVerdict? {
        AWSErrorResponse.verdict(on: response, isToHead: isToHead, isTemporary: keys.token != nil)
    }

    // MARK: Region and service

    private static func isS3(_ service: String) -> Bool {
        service == "s3" || service == "s3express" || service == "s3-object-lambda" || service == "s3-outposts"
    }

    /// Whether a string can be a region or a service in a scope.
    static func isScopePart(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count) && text.utf8.allSatisfy { $0.isScopeCharacter }
    }

    private func region(
        of asked: ClientSignature,
        at host: AWSEndpoint,
        _ authority: String
    ) throws(GatewayProblem) -> String {
        let region = try choose("region", regions, asked.region, host.region, at: authority)
        if let own = host.region, !host.isGlobal, own != region {
            throw Self.forbidden("\(authority) is in the region \(own), but the request would be signed for \(region).")
        }
        return region
    }

    private func service(
        of asked: ClientSignature,
        at host: AWSEndpoint,
        _ authority: String
    ) throws(GatewayProblem) -> String {
        let service = try choose("service", services, asked.service, host.service, at: authority)
        if services.isEmpty, let own = host.service, own != service {
            throw Self.forbidden(
                "\(authority) belongs to the service \(own), but the request would be signed for \(service)."
                    + " If that is correct, set service: \(service) in the credential."
            )
        }
        return service
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

    fileprivate static func forbidden(_ detail: String) -> GatewayProblem { GatewayProblem(.routeForbidden, detail) }

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
    ) throws(GatewayProblem) -> AWSSigningPlan.Payload {
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
            if !request.hasBody { return .literal(SignatureV4.emptyHash) }
            return isS3 && request.isTLS ? .literal("UNSIGNED-PAYLOAD") : .hash
        }
    }

    /// `x-amz-decoded-content-length`: the length of a body without the framing of its chunks.
    private static func decodedLength(of request: SignableRequest) throws(GatewayProblem) -> Int {
        guard request.hasBody else {
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

/// How one request is signed for AWS: all that is decided and read before its date is known.
private final class AWSSigningPlan: SigningPlan {
    enum Payload {
        case literal(String)
        /// The hash of the body.
        case hash
        /// Each chunk of the body is signed.
        ///
        /// - Parameter length: The length of the data in the chunks.
        case chunks(ChunkSigner.Kind, length: Int)
    }

    private let keys: AWSRequestSigner.Keys
    private let region: String
    private let service: String
    private let payload: Payload
    private let sendsPayloadHash: Bool
    private let method: String
    private let path: [UInt8]
    private let pathRule: SignatureV4.PathRule
    private let query: [UInt8]
    /// The query is not that of the client.
    private let replacesQuery: Bool
    /// What is signed besides the fields of the signature.
    private let fields: [SignatureV4.Field]
    private let lifetime: PresignedLifetime?

    /// - Parameters:
    ///   - query: What is sent in place of the client's query; nil if that stays.
    ///   - lifetime: nil for a request that is not presigned.
    init(
        _ request: SignableRequest,
        keys: AWSRequestSigner.Keys,
        region: String,
        service: String,
        isS3: Bool,
        payload: Payload,
        sendsPayloadHash: Bool,
        query: [UInt8]?,
        lifetime: PresignedLifetime?
    ) {
        self.keys = keys
        self.region = region
        self.service = service
        self.payload = payload
        self.sendsPayloadHash = sendsPayloadHash
        method = request.method
        path = request.path
        pathRule = isS3 ? .s3 : .standard
        self.query = query ?? request.query ?? []
        replacesQuery = query != nil
        fields = Self.signedFields(of: request)
        self.lifetime = lifetime
    }

    var needsBody: Bool { if case .hash = payload { true } else { false } }

    func sign(at time: UnixTime, _ content: borrowing Span<UInt8>) -> Result<RequestSignature, GatewayProblem> {
        // The request may have waited since it was planned, for its body or an approval.
        if let problem = lifetime?.refusal(at: time) { return .failure(problem) }
        let time = SignatureV4.timestamp(time)
        let scope = SignatureV4.Scope(date: String(time.prefix(8)), region: region, service: service)
        let hash =
            switch payload {
            case .literal(let text): text
            case .hash: SignatureV4.hash(content)
            case .chunks(let kind, _): kind.rawValue
            }
        var own = [Injection.Field(name: "X-Amz-Date", value: Secret(time))]
        if let token = keys.token { own.append(Injection.Field(name: "X-Amz-Security-Token", value: token)) }
        if sendsPayloadHash { own.append(Injection.Field(name: "X-Amz-Content-SHA256", value: Secret(hash))) }
        let signed = SignatureV4.Request(
            method: method,
            path: path,
            query: query,
            fields: fields + own.map(Self.field),
            payload: hash,
            pathRule: pathRule
        )
        let key = SignatureV4.Key(scope, secret: keys.secret)
        let signature = key.signature(of: SignatureV4.stringToSign(signed.canonical, at: time, scope))
        let value =
            "\(SignatureV4.algorithm) Credential=\(keys.id)/\(scope.text), SignedHeaders=\(signed.signedNames), "
            + "Signature=\(signature)"
        own.append(Injection.Field(name: "Authorization", value: Secret(value)))
        var body: ChunkSigner?
        if case .chunks(let kind, let length) = payload {
            body = ChunkSigner(kind, key, at: time, scope, seed: signature, length: length)
        }
        return .success(RequestSignature(fields: own, query: replacesQuery ? query : nil, body: body))
    }

    /// `Host`, `Content-Type`, `Content-MD5`, and all fields that begin with `x-amz-`, which AWS requires to be signed. Others are left out,
    /// because a proxy on the way may change them.
    private static func signedFields(of request: SignableRequest) -> [SignatureV4.Field] {
        let host = SignatureV4.Field(name: "host", value: Array(request.host.utf8))
        let sent = request.fields.lazy.filter { $0.isForwarded && isSigned($0.name) }
            .map { SignatureV4.Field(name: $0.name, value: $0.value) }
        return [host] + sent + request.added.filter { isSigned($0.name.lowercased()) }.map(field)
    }

    private static func field(_ field: Injection.Field) -> SignatureV4.Field {
        SignatureV4.Field(name: field.name.lowercased(), value: field.value.withValue { Array($0.utf8) })
    }

    private static func isSigned(_ name: String) -> Bool {
        name.hasPrefix("x-amz-") || name == "content-type" || name == "content-md5"
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
    /// nil for a request that is not presigned.
    private(set) var lifetime: PresignedLifetime?

    /// Those of a signature in the query.
    private static let parameters: Set = [
        "x-amz-algorithm", "x-amz-content-sha256", "x-amz-credential", "x-amz-date", "x-amz-expires",
        "x-amz-region-set", "x-amz-s3session-token", "x-amz-security-token", "x-amz-signature", "x-amz-signedheaders",
    ]
    /// Each of them makes a URL a presigned one.
    private static let marks: Set = ["x-amz-algorithm", "x-amz-credential", "x-amz-signature"]
    /// Both together make a URL one of version 2.
    private static let marksOfVersion2: Set = ["awsaccesskeyid", "signature"]
    private static let maximumLifetime = 604_800

    init(of request: SignableRequest) throws(GatewayProblem) {
        let inFields = request.values(of: "authorization").filter { $0.hasPrefix("AWS4-") }
        let values = try takeParameters(from: request.query ?? [])
        let isPresigned = !Self.marks.isDisjoint(with: values.keys)
        guard inFields.count + (isPresigned ? 1 : 0) < 2 else {
            throw GatewayProblem(.requestRefused, "The request has more than one signature.")
        }
        guard isPresigned else {
            guard let value = inFields.first else { return }
            let words = value.split { $0 == " " || $0 == "," }
            let credential = words.dropFirst().first { $0.hasPrefix("Credential=") }?.dropFirst("Credential=".count)
            let scope = try Self.scope(String(words.first ?? ""), credential.map(String.init))
            (region, service) = (scope.region, scope.service)
            return
        }
        if let (name, _) = values.first(where: { $0.value.count > 1 }) {
            throw GatewayProblem(.requestRefused, "The request has \(name) more than once in its query.")
        }
        let scope = try Self.scope(values["x-amz-algorithm"]?.first ?? "", values["x-amz-credential"]?.first)
        (region, service) = (scope.region, scope.service)
        lifetime = try Self.lifetime(values["x-amz-date"]?.first, values["x-amz-expires"]?.first)
        payload = values["x-amz-content-sha256"]?.first
    }

    /// Leaves the parameters of a signature out of ``query``.
    ///
    /// - Returns: Their values.
    private mutating func takeParameters(from sent: [UInt8]) throws(GatewayProblem) -> [String: [String]] {
        var values: [String: [String]] = [:]
        var kept: [ArraySlice<UInt8>] = []
        var old: Set<String> = []
        for parameter in sent.split(separator: Self.ampersand, omittingEmptySubsequences: false) {
            if let name = Self.name(of: parameter) {
                guard !Self.parameters.contains(name) else {
                    let value = SignatureV4.decoded(parameter.drop { $0 != Self.equals }.dropFirst())
                    values[name, default: []].append(String(decoding: value, as: UTF8.self))
                    continue
                }
                if Self.marksOfVersion2.contains(name) { old.insert(name) }
            }
            guard !Self.hidesParameter(parameter) else {
                throw GatewayProblem(
                    .requestRefused,
                    "A parameter of the signature follows a semicolon, which some servers read as &. Encode it (%3B)."
                )
            }
            kept.append(parameter)
        }
        guard old != Self.marksOfVersion2 else {
            throw GatewayProblem(
                .requestRefused,
                "The presigned URL has a signature of version 2, which AWS no longer accepts everywhere. Have the client sign with version 4"
                    + " (signature_version: s3v4)."
            )
        }
        if !values.isEmpty { query = Array(kept.joined(separator: [Self.ampersand])) }
        return values
    }

    /// The decoded name in lower case; nil for most names that no signature has.
    private static func name(of parameter: ArraySlice<UInt8>) -> String? {
        let name = parameter.prefix { $0 != equals }
        // `X-Amz-…`, `AWSAccessKeyId` and `Signature`, or encoded.
        guard let first = name.first, name.count >= "signature".utf8.count,
            first == percent || "xas".utf8.contains(first.asciiLowercased)
        else { return nil }
        return String(decoding: SignatureV4.decoded(name), as: UTF8.self).lowercased()
    }

    /// Whether a server that splits at `;`, too, reads a parameter of a signature in another one.
    private static func hidesParameter(_ parameter: ArraySlice<UInt8>) -> Bool {
        guard parameter.contains(semicolon) else { return false }
        let parts = parameter.split(separator: semicolon, omittingEmptySubsequences: false)
        return parts.dropFirst().contains { part in
            part.contains(equals) && name(of: part).map(parameters.contains) ?? false
        }
    }

    private static let ampersand = UInt8(ascii: "&")
    private static let equals = UInt8(ascii: "=")
    private static let percent = UInt8(ascii: "%")
    private static let semicolon = UInt8(ascii: ";")

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

    private static func lifetime(_ date: String?, _ seconds: String?) throws(GatewayProblem) -> PresignedLifetime {
        guard let start = date.flatMap(time), let seconds = seconds.flatMap({ Int($0) }),
            (0...maximumLifetime).contains(seconds)
        else {
            throw GatewayProblem(
                .requestRefused,
                "The presigned URL has no valid X-Amz-Date and X-Amz-Expires (at most \(maximumLifetime) seconds)."
            )
        }
        return PresignedLifetime(start: start, end: start + .seconds(seconds))
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

/// When a presigned URL is valid. It is handed out for a limited time, which still applies when its signature is replaced.
private struct PresignedLifetime: Sendable {
    let start: UnixTime
    let end: UnixTime

    /// AWS accepts requests that are dated this far ahead.
    private static let tolerance = Duration.seconds(15 * 60)

    func refusal(at now: UnixTime) -> GatewayProblem? {
        guard now < end else {
            return AWSRequestSigner.forbidden("The presigned URL has expired; make a new one.")
        }
        guard start < now + Self.tolerance else {
            return AWSRequestSigner.forbidden(
                "The presigned URL is dated more than 15 minutes ahead; set the clock of the client that made it."
            )
        }
        return nil
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
