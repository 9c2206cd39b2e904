package import GatewayHTTP

/// One request to an authorization server, described as a value; a ``TokenEndpoint`` sends it.
package struct TokenRequest: Hashable, Sendable {
    /// How long a call may take, all its requests together.
    package static let longestCall: Duration = .seconds(15)

    package enum Method: String, CaseIterable, Sendable {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
        case patch = "PATCH"
        case delete = "DELETE"
    }

    package enum Body: Hashable, Sendable {
        case none
        /// `application/x-www-form-urlencoded`, strictly encoded, in this order.
        case form([Parameter])
        /// Sent unchanged, with this `Content-Type`.
        case content(type: String, Secret)
    }

    package struct Parameter: Hashable, Sendable {
        package let name: String
        package let value: Secret

        package init(_ name: String, _ value: Secret) {
            self.name = name
            self.value = value
        }

        package init(_ name: String, _ value: String) { self.init(name, Secret(value)) }
    }

    /// A parameter of the form whose value others issue; it is fetched when the request is sent.
    package struct IssuedParameter: Hashable, Sendable {
        package let name: String
        package let source: AssertionSource

        package init(_ name: String, from source: AssertionSource) {
            self.name = name
            self.source = source
        }
    }

    package var method: Method
    package var url: AuthorityURL
    package var fields: [Injection.Field]
    package var body: Body
    /// A certificate of our own; nil shows none.
    package var tls: ClientTLS?
    /// What the connection goes through; nil for none.
    package var proxy: ProxyRule?
    /// Parameters that follow those of the form.
    package var issuedParameters: [IssuedParameter] = []

    package init(method: Method = .post, url: AuthorityURL, fields: [Injection.Field] = [], body: Body = .none) {
        self.method = method
        self.url = url
        self.fields = fields
        self.body = body
    }
}

extension TokenRequest {
    /// The request with the values of all its ``issuedParameters``, in their order.
    package func filled(with values: [Secret]) -> TokenRequest {
        guard case .form(let form) = body else { return self }
        var request = self
        request.body = .form(form + zip(issuedParameters, values).map { Parameter($0.name, $1) })
        request.issuedParameters = []
        return request
    }
}

/// The answer to a ``TokenRequest``, whatever its status.
///
/// Strategies that read a particular answer extend it privately.
package struct TokenReply: Hashable, Sendable {
    /// 0 for what a program printed.
    package let status: Int
    /// The fields in the order of arrival; names as received.
    package let fields: [Field]
    /// At most 1 MiB; a longer answer is a ``TokenTransportFailure``.
    package let body: [UInt8]
    /// The authorization server's clock minus ours; nil when it was not measured. See ``ClockSkew``.
    package var clockSkewSeconds: Int?

    package struct Field: Hashable, Sendable {
        package let name: String
        package let value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    package init(status: Int, fields: [Field] = [], body: [UInt8] = []) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// What a program printed.
    package init(output: [UInt8]) { self.init(status: 0, body: output) }

    /// nil for what a program printed.
    package var httpStatus: Int? { status == 0 ? nil : status }

    /// The body as far as it can be read without doubt: JSON, or a form where the type says so; nil for anything else.
    ///
    /// A refresh token or a code is spent by the time that an answer comes, so a fault in an unused member must not cost
    /// the tokens in the others. See ``JSONValue/init(_:forgiving:uniqueNames:)`` for what a member that is used must not hold.
    package var document: JSONValue? {
        JSONValue(body, forgiving: true) ?? (isForm ? JSONValue(form: trimmedBody) : nil)
    }

    private var isForm: Bool {
        let type = field("Content-Type")?.prefix { $0 != ";" }.filter { $0 != " " }.lowercased()
        return type == "application/x-www-form-urlencoded"
    }

    private var trimmedBody: [UInt8] {
        let isBlank: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
        return Array(body.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
    }

    package func field(_ name: String) -> String? {
        let wanted = name.lowercased()
        return fields.first { $0.name.lowercased() == wanted }?.value
    }

    /// `Retry-After` as seconds (fractions are seen in the field) or as a date (RFC 9110 §10.2.3).
    ///
    /// nil for anything else. At most a year; the gateway itself never waits longer than ``BackOff/longestRetryAfter``.
    package func retryAfter(at now: Moment) -> Duration? {
        guard let text = field("Retry-After")?.trimmed else { return nil }
        let longest = Duration.seconds(365 * 86_400)
        let wait: Duration
        if let date = UnixTime(httpDate: text) {
            wait = date - now.wall
        } else {
            let isNumber = text.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == UInt8(ascii: ".") }
            guard isNumber, let seconds = Double(text) else { return nil }
            wait = .milliseconds(Int64(min(seconds, Double(longest.components.seconds)) * 1000))
        }
        return min(max(wait, .zero), longest)
    }
}

/// Why no answer came.
package struct TokenTransportFailure: Error, Hashable, Sendable {
    package enum Reason: String, CaseIterable, Sendable {
        case nameNotResolved = "name_not_resolved"
        case connectionRefused = "connection_refused"
        case connectTimeout = "connect_timeout"
        case tlsFailed = "tls_failed"
        case responseTimeout = "response_timeout"
        case connectionLost = "connection_lost"
        case answerTooLarge = "answer_too_large"
        case invalidAnswer = "invalid_answer"
        /// A field or the URL cannot be written as HTTP; repeating it does not help.
        case unsendable = "unsendable_request"
        /// An assertion that is part of the request is unavailable now; it may be there again later.
        case missingAssertion = "missing_assertion"

        /// The request was not sent, because of something on this machine.
        package var isLocal: Bool { self == .unsendable || self == .missingAssertion }
    }

    package let reason: Reason
    /// The request may have been acted upon although no answer came: a refresh token may be spent.
    package let mayHaveBeenProcessed: Bool
    /// Which assertion is unavailable, and why; nil for any other reason.
    package let missingAssertion: MissingAssertion?
    /// The alert with which the server refused the TLS connection.
    package let alert: TLSAlert?
    /// What ``Reason/tlsFailed`` means, as far as it is known: one of the errors of TLS.
    package var tlsError: GatewayProblem.HopError?
    /// What went wrong at the proxy, or on the way to it, in one sentence. Nothing came to the authorization server.
    package var proxyProblem: ProxyProblem?
    /// The proxy that the connection went through, as messages name it, where something behind it failed; nil where there was none.
    package var proxy: String?
    /// The content coding that cannot be undone, where ``Reason/invalidAnswer`` means that.
    package var unreadableCoding: String?

    /// Nothing was sent.
    package init(_ problem: ProxyProblem, reason: Reason = .connectionRefused) {
        self.init(reason, mayHaveBeenProcessed: false)
        proxyProblem = problem
    }

    package init(_ reason: Reason, mayHaveBeenProcessed: Bool, alert: TLSAlert? = nil) {
        self.reason = reason
        self.mayHaveBeenProcessed = mayHaveBeenProcessed
        self.alert = alert
        missingAssertion = nil
    }

    package init(_ missing: MissingAssertion) {
        reason = .missingAssertion
        mayHaveBeenProcessed = false
        missingAssertion = missing
        alert = nil
    }

    /// What a proxy has to do with it, in one sentence; nil where there is none.
    package var proxyDetail: String? {
        proxyProblem?.detail ?? proxy.map { "The connection goes through the proxy \($0)." }
    }
}

/// Which values of a request are secrets, so that nothing repeats them.
extension TokenRequest {
    /// Values that no answer may repeat: secrets by their name, and values that cannot be guessed.
    package var secrets: [Secret] {
        let hidden = fields.filter { Self.isSecret($0.value, named: $0.name) }.flatMap { Self.parts(of: $0.value) }
        return hidden + (parameters + queryParameters).filter { Self.isSecret($0.value, named: $0.name) }.map(\.value)
    }

    private var parameters: [(name: String, value: Secret)] {
        switch body {
        case .none: []
        case .form(let parameters): parameters.map { ($0.name, $0.value) }
        case .content(let type, let content): content.withValue { Self.values(in: $0, type: type.lowercased()) }
        }
    }

    private var queryParameters: [(name: String, value: Secret)] {
        url.text.firstIndex(of: "?").map { Self.formValues(in: url.text[$0...].dropFirst()) } ?? []
    }

    // MARK: Contents

    private static func values(in content: String, type: String) -> [(name: String, value: Secret)] {
        if let json = JSONValue(Array(content.utf8)) { return leaves(of: json, named: "") }
        if type.hasPrefix("application/x-www-form-urlencoded") { return formValues(in: content[...]) }
        // The texts between the tags of XML, and whatever else stands by itself.
        return content.split { $0.isWhitespace || "<>\"'".contains($0) }.map { ("", Secret(String($0))) }
    }

    private static func leaves(of value: JSONValue, named name: String) -> [(name: String, value: Secret)] {
        switch value {
        case .string(let text): [(name, Secret(text))]
        case .object(let members): members.flatMap { leaves(of: $0.value, named: $0.key) }
        case .array(let elements), .conflict(let elements): elements.flatMap { leaves(of: $0, named: name) }
        case .null, .bool, .number: []
        }
    }

    private static func formValues(in text: Substring) -> [(name: String, value: Secret)] {
        text.split(separator: "&").map { pair in
            let parts = pair.split(separator: "=", maxSplits: 1).map { FormEncoding.decode($0.utf8) ?? String($0) }
            return parts.count == 2 ? (parts[0], Secret(parts[1])) : ("", Secret(parts.first ?? ""))
        }
    }

    // MARK: Which of them are secrets

    /// Whether the value of this parameter or field may be repeated.
    static func isPublic(_ name: String) -> Bool {
        let name = name.lowercased()
        return publicNames.contains(name) || publicEndings.contains { name.hasSuffix($0) }
    }

    private static func isSecret(_ value: Secret, named name: String) -> Bool {
        guard !isPublic(name) else { return false }
        if SecretMask.isSensitive(name) || sensitiveNames.contains(name.lowercased()) { return true }
        return value.withValue {
            $0.utf8.count >= 8 && !$0.utf8.allSatisfy { (0x61...0x7A).contains($0.asciiLowercased) }
        }
    }

    /// A field with and without its scheme. `Basic` holds a name and a password, which an answer could repeat by themselves.
    private static func parts(of value: Secret) -> [Secret] {
        value.withValue { text in
            let words = text.split(separator: " ").map(String.init)
            guard words.count == 2 else { return [value] }
            let decoded = Base64.decodeURL(words[1].replacing("+", with: "-").replacing("/", with: "_")) ?? []
            let password = decoded.split(separator: UInt8(ascii: ":"), maxSplits: 1).dropFirst().first
            guard words[0].lowercased() == "basic", let password else { return [value, Secret(words[1])] }
            let plain = String(decoding: password, as: UTF8.self)
            return [value, Secret(words[1]), Secret(plain), Secret(FormEncoding.decode(password) ?? plain)]
        }
    }

    private static let sensitiveNames: Set<String> = [
        "code", "code_verifier", "device_code", "otp", "totp", "pin", "mfa_code", "answer", "signature", "sig",
        "session",
        "sid",
    ]

    /// Text about them helps, and does no harm.
    private static let publicNames: Set<String> = [
        "grant_type", "response_type", "client_assertion_type", "subject_token_type", "requested_token_type",
        "actor_token_type", "assertion_type", "scope", "scopes", "audience", "resource", "redirect_uri", "client_id",
        "username", "user", "login", "email", "tenant", "realm", "domain", "rolearn", "rolesessionname",
        "accept", "content-type", "user-agent",
    ]

    /// Whom a token is for. Services put a prefix of their own before it.
    private static let publicEndings = ["_subject_type", "_subject_id"]
}

extension FormEncoding {
    package static func encode(_ parameters: [TokenRequest.Parameter]) -> [UInt8] {
        var bytes: [UInt8] = []
        for parameter in parameters {
            if !bytes.isEmpty { bytes.append(UInt8(ascii: "&")) }
            PercentEncoding.append(parameter.name, to: &bytes, isForm: true)
            bytes.append(UInt8(ascii: "="))
            parameter.value.withValue { PercentEncoding.append($0, to: &bytes, isForm: true) }
        }
        return bytes
    }
}

extension String {
    fileprivate var trimmed: String {
        let isBlank = { (character: Character) in character == " " || character == "\t" }
        let start = drop(while: isBlank)
        guard let last = start.lastIndex(where: { !isBlank($0) }) else { return "" }
        return String(start[...last])
    }
}

/// What the answer to a revocation means.
extension TokenReply {
    /// Some refuse to end a token that they do not know, which is what was wanted.
    package var saysThatTheTokenIsUnknown: Bool {
        let code = document?["error"]?.string
        return status == 400 && (code == "invalid_token" || code == "invalid_grant")
    }

    /// - Parameter authority: Who answered, as a sentence begins.
    package func refusalToRevoke(by authority: String) -> GatewayProblem {
        let code = OAuthErrorCode.allowListed(document?["error"]?.string)
        let cause = GatewayProblem.Cause(code: code, httpStatus: status)
        let answer = (["status \(status)"] + [code].compactMap(\.self)).joined(separator: ", ")
        guard status != 429, status < 500 else {
            let detail = "\(authority) does not revoke tokens at the moment (\(answer))."
            return GatewayProblem(.tokenTemporarilyUnavailable, detail, cause: cause)
        }
        return GatewayProblem(
            .credentialMisconfigured,
            "\(authority) refused to revoke the token (\(answer)).",
            cause: cause
        )
    }
}
