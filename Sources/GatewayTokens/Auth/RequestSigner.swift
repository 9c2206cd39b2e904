package import GatewayHTTP

/// What signs the requests of a credential.
package enum Signer: Sendable {
    /// Each request is signed by itself.
    case everyRequest(any RequestSigner)
    /// Requests are signed from the upstream's first challenge on (``SigningSessions``).
    case afterChallenge(any ChallengeSigner)

    private var common: any SignerDescription {
        switch self {
        case .everyRequest(let signer): signer
        case .afterChallenge(let signer): signer
        }
    }

    package var identity: GrantIdentity { common.identity }
    package var ownedFields: [String] { common.ownedFields }
    package var usualFields: [String] { common.usualFields }
}

/// What every signer says about itself.
package protocol SignerDescription: Sendable {
    /// Every input, keys included. A signer with another identity is another credential.
    var identity: GrantIdentity { get }

    /// The names of all fields that it may set. The client's own are not forwarded, but the signer can read them.
    var ownedFields: [String] { get }

    /// The ``ownedFields`` that every signed request has, for `explain`.
    var usualFields: [String] { get }
}

/// Signs requests: computes header fields or query parameters from the request itself, each time it is sent.
///
/// It does no I/O. All event loops share it, so one with state, such as a counter, has to protect that itself.
package protocol RequestSigner: SignerDescription {
    /// The paths of the upstream that the request reads besides its own, as a request for each would have it; nil for one that it
    /// does not know. The client must be allowed to get them.
    func otherPaths(of request: SignableRequest) -> [[UInt8]?]

    /// Reads a request once its credential is available, before a connection is chosen.
    ///
    /// - Returns: How each attempt to send it is signed; otherwise why it must not be signed.
    func plan(for request: SignableRequest) -> Result<any SigningPlan, GatewayProblem>

    /// The statuses of the responses that ``verdict(on:isToHead:)`` judges. The gateway inspects the beginning of their body first, if they
    /// have one.
    var judgedStatuses: [Int] { get }

    /// What a response says about the signature of its request; nil if it says nothing.
    ///
    /// - Parameters:
    ///   - response: Its body is the beginning; empty if there is none, or if it cannot be inspected.
    ///   - isToHead: It answers HEAD, so it has no body.
    func verdict(on response: TokenReply, isToHead: Bool) -> SignatureVerdict?
}

extension RequestSigner {
    package var usualFields: [String] { ownedFields }
    package func otherPaths(of request: SignableRequest) -> [[UInt8]?] { [] }
    package var judgedStatuses: [Int] { [] }
    package func verdict(on response: TokenReply, isToHead: Bool) -> SignatureVerdict? { nil }
}

extension Signer {
    /// nil for a signer that does not judge responses.
    package var judge: (any RequestSigner)? {
        guard case .everyRequest(let signer) = self, !signer.judgedStatuses.isEmpty else { return nil }
        return signer
    }
}

/// What a response says about the signature of its request.
package enum SignatureVerdict: Hashable, Sendable {
    /// The upstream does not accept the keys any more.
    case keysRejected
    /// The upstream does not accept the date of the signature.
    ///
    /// - Parameter least: By how many seconds that date and the upstream's clock must differ for this to be the reason.
    case wrongTime(least: Int)
}

/// Turns a challenge of an upstream into a session that later requests are signed with (``SigningSessions``). Pure.
package protocol ChallengeSigner: SignerDescription {
    /// - Parameter clientNonce: A random hexadecimal number that nobody can guess.
    /// - Returns: nil if none of the challenges may be answered.
    func session(answering challenges: [AuthChallenge], clientNonce: String) -> (any SigningSession)?
}

/// What requests are signed with after a challenge. Pure.
package protocol SigningSession: Sendable {
    /// The protection space that it is for (RFC 9110 section 11.5), among those of one upstream.
    var realm: String { get }

    /// The request that was challenged had the right signature, and was refused only because its session was too old.
    var isStale: Bool { get }

    /// - Parameter number: Counts the requests of the session: 1 for the first one.
    func sign(_ request: SignableRequest, number: UInt32) -> RequestSignature

    /// - Parameter info: The value of `Authentication-Info` in a response that let the request in.
    /// - Returns: The session that the upstream wants next; nil if it is this one.
    func next(after info: [UInt8]) -> (any SigningSession)?
}

extension ChallengeSigner {
    /// Also `Authentication-Info`, which clients do not get: it may hold a hash of the password, and they could guess
    /// that offline (`rspauth`, RFC 7616 section 3.5).
    package var ownedFields: [String] { ["Authorization", "Authentication-Info"] }
    package var usualFields: [String] { ["Authorization"] }
}

/// How one request is signed. The request was read when this was made, so an attempt costs the signature alone.
///
/// A class: every request has a place for one, and few have one.
package protocol SigningPlan: AnyObject, Sendable {
    /// The signature covers the whole body, which is collected first, up to `limits.replay_body_bytes`.
    var needsBody: Bool { get }

    /// Signs the request as it is about to be sent: for the first time, for a replay, or on another connection.
    ///
    /// - Parameters:
    ///   - time: The date of the signature.
    ///   - content: The whole body if ``needsBody``; otherwise empty.
    func sign(at time: UnixTime, _ content: borrowing Span<UInt8>) -> Result<RequestSignature, GatewayProblem>
}

/// A request as it will be sent to the upstream, for a ``RequestSigner``.
package struct SignableRequest: Sendable {
    /// A field that the client sent.
    package struct Field: Sendable {
        /// In lower case.
        package let name: String
        /// Without the whitespace around it.
        package let value: [UInt8]
        /// Whether the upstream gets it. A field that proved the client to the gateway in `Authorization` is left out altogether.
        package let isForwarded: Bool

        package init(name: String, value: [UInt8], isForwarded: Bool) {
            self.name = name
            self.value = value
            self.isForwarded = isForwarded
        }

        package var text: String { String(decoding: value, as: UTF8.self) }
    }

    package let method: String
    /// With the upstream's base path, byte for byte as it will be sent.
    package let path: [UInt8]
    /// Without its `?`; nil if there is none.
    package let query: [UInt8]?
    /// The upstream is reached by TLS.
    package let isTLS: Bool
    /// The value of `Host`, or of `:authority`.
    package let host: String
    /// The client's fields, in the order in which they were sent.
    package let fields: [Field]
    /// The fields that the route adds.
    package let added: [Injection.Field]
    package let hasBody: Bool
    package var time: UnixTime

    package init(
        method: String,
        path: [UInt8],
        query: [UInt8]?,
        isTLS: Bool,
        host: String,
        fields: [Field],
        added: [Injection.Field],
        hasBody: Bool,
        time: UnixTime
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.isTLS = isTLS
        self.host = host
        self.fields = fields
        self.added = added
        self.hasBody = hasBody
        self.time = time
    }

    /// The values of the client's fields with this name, whether they are forwarded or not.
    ///
    /// - Parameter name: In lower case.
    package func values(of name: String) -> [String] { fields.filter { $0.name == name }.map(\.text) }
}

/// What a signer adds to one request.
///
/// A class, because every request has room for one, and few need it.
package final class RequestSignature: Sendable {
    package let fields: [Injection.Field]
    /// Takes the place of the request's query, without a `?`; nil leaves that as it is, and an empty one removes it.
    package let query: [UInt8]?
    /// ``fields`` as they are sent in HTTP/1, each with its CRLF.
    package let lines: SecretBytes
    /// Signs the body while it is forwarded; nil forwards it as it is.
    package let body: (any BodySigner)?

    /// How many bytes it adds to a head, at most.
    package var size: Int { lines.count + 1 + (query?.count ?? 0) }

    package init(fields: [Injection.Field], query: [UInt8]? = nil, body: (any BodySigner)? = nil) {
        self.fields = fields
        self.query = query
        self.body = body
        lines = Injection(fields: fields).lines
    }

    /// The same, with the length of a body that was collected and is therefore not sent in chunks.
    package func declaring(length: Int) -> RequestSignature {
        RequestSignature(
            fields: fields + [Injection.Field(name: "Content-Length", value: Secret(String(length)))],
            query: query,
            body: body
        )
    }
}

/// Replaces the signatures inside a body while the body is forwarded.
package protocol BodySigner: Sendable {
    /// The number of bytes that it holds back until more of the body has come.
    var heldBytes: Int { get }

    /// Takes the next part of the body, without the framing of HTTP.
    ///
    /// - Parameter isLast: The body ends with this part.
    /// - Returns: The bytes to send now; may be empty. The whole result is as long as the whole body.
    /// - Throws: Why the body must not be sent. The request then ends, so that the upstream never gets all of it.
    mutating func sign(_ part: borrowing Span<UInt8>, isLast: Bool) throws(GatewayProblem) -> [UInt8]
}
