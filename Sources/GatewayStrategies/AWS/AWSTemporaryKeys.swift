import GatewayHTTP
import GatewayTokens

/// An access key with its expiry, as programs and STS hand it out. Everything but the signer treats it as one token.
///
/// The token is what `credential_process` prints, so SDKs can read one that is handed out
/// (docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html).
struct AWSTemporaryKeys: Sendable {
    let keys: AWSRequestSigner.Keys
    /// nil for keys that are valid until they are rejected.
    private(set) var expiresAt: UnixTime?

    /// - Parameter expiration: RFC 3339.
    init(id: String?, secret: String?, token: String?, expiration: String?) throws(BrokenAnswer) {
        guard let id, AWSRequestSigner.Keys.isID(id) else {
            throw BrokenAnswer(reason: "there is no valid AccessKeyId in it")
        }
        guard let secret, FieldSyntax.isValue(secret) else {
            throw BrokenAnswer(reason: "there is no valid SecretAccessKey in it")
        }
        if let token, !FieldSyntax.isValue(token) {
            throw BrokenAnswer(reason: "its SessionToken is not visible ASCII")
        }
        keys = AWSRequestSigner.Keys(id: id, secret: Secret(secret), token: token.map { Secret($0) })
        guard let expiration else { return }
        guard let end = StatedTimes.instant(expiration) else {
            throw BrokenAnswer(reason: "its Expiration is not a time such as 2026-03-01T09:30:00Z")
        }
        expiresAt = end
    }

    /// What a program prints.
    init(printed document: JSONValue?) throws(BrokenAnswer) {
        guard let document, case .object = document else {
            throw BrokenAnswer(reason: "the output is not a JSON object")
        }
        guard case .number(let version)? = document["Version"], version.whole == 1 else {
            throw BrokenAnswer(reason: "its Version is not 1")
        }
        try self.init(
            id: document["AccessKeyId"]?.string,
            secret: document["SecretAccessKey"]?.string,
            token: document["SessionToken"]?.string,
            expiration: document["Expiration"]?.string
        )
    }

    /// nil for any other token, such as one that an operator has brought.
    init?(_ token: Secret) {
        guard let keys = try? AWSTemporaryKeys(printed: token.withValue { JSONValue(Array($0.utf8)) }) else {
            return nil
        }
        self = keys
    }

    func token(obtainedAt now: UnixTime) throws(BrokenAnswer) -> TokenSet {
        var members: [String: JSONValue] = [
            "Version": .number(1), "AccessKeyId": .string(keys.id),
            "SecretAccessKey": .string(keys.secret.withValue { $0 }),
        ]
        if let token = keys.token { members["SessionToken"] = .string(token.withValue { $0 }) }
        if let expiresAt { members["Expiration"] = .string(expiresAt.rfc3339) }
        guard let bytes = try? JSONValue.object(members).bytes(),
            let access = IssuedToken.read(String(decoding: bytes, as: UTF8.self))
        else { throw BrokenAnswer(reason: "the keys are longer than \(IssuedToken.limitBytes) bytes") }
        return TokenSet(access: access, obtainedAt: now, expiresAt: expiresAt)
    }
}

extension AWSRequestSigner.Keys {
    /// The ID is written into `Credential=ID/…`, so it must not contain what ends it there.
    static func isID(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count) && FieldSyntax.isValue(text)
            && text.utf8.allSatisfy { $0 != 0x20 && $0 != 0x2C && $0 != 0x2F && $0 != 0x3D }
    }
}
