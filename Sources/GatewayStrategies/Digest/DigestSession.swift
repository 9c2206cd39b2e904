import Crypto
import CryptoExtras
import GatewayHTTP
import GatewayTokens

/// The hash functions of Digest (RFC 7616 section 3.2), strongest first.
enum DigestAlgorithm: String, CaseIterable, Sendable {
    /// That of FIPS 180-4, with initial values of its own, as libcurl and OpenSSL compute it. The example of RFC 7616
    /// section 3.9.2 was computed with a truncated SHA-512 instead (erratum 4897).
    case sha512256 = "SHA-512-256"
    case sha256 = "SHA-256"
    case md5 = "MD5"

    /// In lower-case hexadecimal digits.
    func hash(_ bytes: [UInt8]) -> String {
        switch self {
        case .sha512256: Hexadecimal.text(of: SHA512256.hash(data: bytes))
        case .sha256: Hexadecimal.text(of: SHA256.hash(data: bytes))
        case .md5: Hexadecimal.text(of: Insecure.MD5.hash(data: bytes))
        }
    }

    func hash(_ parts: String...) -> String { hash(Array(parts.joined(separator: ":").utf8)) }
}

/// Signs requests after a challenge, with its nonce and a hash of password and realm.
struct DigestSession: SigningSession {
    private let challenge: DigestChallenge
    /// That of the challenge, or one that a response has brought since.
    let nonce: String
    /// `username=…`, `username*=…` or a hash, as it is sent.
    private let username: String
    /// H(A1) of RFC 7616 section 3.4.2. Whoever has it can sign as well as with the password, in this realm.
    private let passwordHash: Secret
    private let clientNonce: String

    /// - Parameter clientNonce: Random, of characters that need no quoting.
    init(_ challenge: DigestChallenge, _ account: UserAccount, clientNonce: String) {
        self.challenge = challenge
        self.clientNonce = clientNonce
        nonce = challenge.nonce
        username = Self.username(account.username, for: challenge)
        let algorithm = challenge.algorithm
        passwordHash = account.password.withValue { password in
            let hash = algorithm.hash(account.username, challenge.realm, password)
            return Secret(challenge.isSession ? algorithm.hash(hash, challenge.nonce, clientNonce) : hash)
        }
    }

    private init(_ previous: DigestSession, nonce: String) {
        (challenge, username, clientNonce) = (previous.challenge, previous.username, previous.clientNonce)
        // That of a session is made once, with the first nonce (RFC 7616 section 3.4.2).
        passwordHash = previous.passwordHash
        self.nonce = nonce
    }

    var realm: String { challenge.realm }
    var isStale: Bool { challenge.isStale }

    func sign(_ request: SignableRequest, number: UInt32) -> RequestSignature {
        let uri = request.path + (request.query.map { [UInt8(ascii: "?")] + $0 } ?? [])
        let value = authorization(method: request.method, uri: uri, number: number)
        return RequestSignature(fields: [Injection.Field(name: "Authorization", value: Secret(value))])
    }

    /// The value of `Authorization` (RFC 7616 section 3.4).
    func authorization(method: String, uri: [UInt8], number: UInt32) -> String {
        let algorithm = challenge.algorithm
        let digits = String(number, radix: 16)
        let count = String(repeating: "0", count: 8 - digits.count) + digits
        let requestHash = algorithm.hash(Array("\(method):".utf8) + uri)
        let response = passwordHash.withValue { hash in
            switch challenge.protection {
            case .auth: algorithm.hash(hash, nonce, count, clientNonce, "auth", requestHash)
            case .none: algorithm.hash(hash, nonce, requestHash)
            }
        }
        // In curl's order, because servers are tested with curl.
        var parts = [
            username, "realm=\(Self.quoted(challenge.realm))", "nonce=\(Self.quoted(nonce))",
            "uri=\(Self.quoted(String(decoding: uri, as: UTF8.self)))",
        ]
        if challenge.protection == .auth { parts += ["cnonce=\"\(clientNonce)\"", "nc=\(count)", "qop=auth"] }
        parts.append("response=\"\(response)\"")
        if let text = challenge.algorithmText { parts.append("algorithm=\(text)") }
        if let opaque = challenge.opaque { parts.append("opaque=\(Self.quoted(opaque))") }
        if challenge.hidesUsername { parts.append("userhash=true") }
        return "Digest \(parts.joined(separator: ", "))"
    }

    func next(after info: [UInt8]) -> (any SigningSession)? {
        // The field has the parameters of a challenge, without a scheme (RFC 7616 section 3.5).
        let parameters = AuthChallenge.list(Array("Digest ".utf8) + info).first?.parameters
        guard let nonce = parameters?["nextnonce"], nonce != self.nonce, !nonce.isEmpty,
            DigestChallenge.isPlain(nonce)
        else {
            return nil
        }
        return DigestSession(self, nonce: nonce)
    }

    /// RFC 7616 section 3.4.4.
    private static func username(_ name: String, for challenge: DigestChallenge) -> String {
        if challenge.hidesUsername { return "username=\"\(challenge.algorithm.hash(name, challenge.realm))\"" }
        // Servers that name no charset do not know `username*`, and get the bytes, as from curl.
        if challenge.isUTF8, !name.utf8.allSatisfy({ $0 < 0x80 }) {
            return "username*=UTF-8''\(PercentEncoding.encode(name))"
        }
        return "username=\(quoted(name))"
    }

    private static func quoted(_ text: String) -> String {
        "\"\(text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))\""
    }
}
