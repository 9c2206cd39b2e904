package import GatewayHTTP
package import GatewayTokens
import Synchronization

/// What signed tokens of clients are verified with, beside the configuration.
package struct ClientJWTParts: Sendable {
    package let keySets: ClientKeySets
    let verify: SignatureCheck
    let now: @Sendable () -> UnixTime

    package init(
        keySets: ClientKeySets,
        verify: @escaping SignatureCheck,
        now: @escaping @Sendable () -> UnixTime
    ) {
        self.keySets = keySets
        self.verify = verify
        self.now = now
    }
}

/// Finds the client that a signed token proves.
///
/// A signature is verified once for each token and kept until the token ends, within bounds. Connections keep their last client, too.
final class ClientJWTVerifier: Sendable {
    /// How long a result counts.
    struct Validity: Hashable, Sendable {
        let end: UnixTime
        let generation: Int
    }

    struct Result: Sendable {
        let client: ClientOfProof
        let validity: Validity
    }

    private struct Known: Sendable {
        let client: String
        let plan: ClientJWTPlan
    }

    static let capacity = 4096

    private let known: [Known]
    private let parts: ClientJWTParts
    private let sha256: @Sendable ([UInt8]) -> [UInt8]
    /// The results, by the digest of the token.
    private let verified = Mutex<[[UInt8]: Result]>([:])

    /// - Returns: nil where no client proves itself so.
    init?(_ clients: [AccessPlan.Client], _ parts: ClientJWTParts?, sha256: @escaping @Sendable ([UInt8]) -> [UInt8]) {
        known = clients.compactMap { client in client.jwt.map { Known(client: client.name, plan: $0) } }
        guard let parts, !known.isEmpty else { return nil }
        self.parts = parts
        self.sha256 = sha256
    }

    func isValid(_ validity: Validity) -> Bool {
        validity.generation == parts.keySets.generation && parts.now() < validity.end
    }

    /// - Returns: nil for a token that proves no client.
    func result(for token: [UInt8]) -> Result? {
        // Most tokens are no JWT, which begins with `{"` in base64url.
        guard token.starts(with: "ey".utf8), token.count <= SignedJWT.maximumBytes else { return nil }
        let digest = sha256(token)
        if let result = verified.withLock({ $0[digest] }), isValid(result.validity) { return result }
        guard let result = verify(token) else { return nil }
        verified.withLock { verified in
            if verified.count >= Self.capacity { verified.removeAll(keepingCapacity: true) }
            verified[digest] = result
        }
        return result
    }

    private func verify(_ token: [UInt8]) -> Result? {
        let generation = parts.keySets.generation
        guard let jwt = SignedJWT(token), let end = ClientJWTPlan.end(of: jwt.claims, at: parts.now()) else {
            return nil
        }
        let meant = known.filter { $0.plan.isMeant(by: jwt.claims) }
        // Several clients may have the keys of one issuer: each key is asked once.
        var answers: [JSONWebKey: Bool] = [:]
        let proven = meant.filter { client in
            keys(for: jwt, client.plan).contains { key in
                let answer = answers[key] ?? parts.verify(jwt.signature, jwt.signed, jwt.algorithm, key)
                answers[key] = answer
                return answer
            }
        }
        guard let first = proven.first else { return nil }
        let client: ClientOfProof = proven.count == 1 ? .one(first.client) : .several
        return Result(client: client, validity: Validity(end: end, generation: generation))
    }

    private func keys(for token: SignedJWT, _ plan: ClientJWTPlan) -> [JSONWebKey] {
        switch plan.keys {
        case .set(let set): return set.keys(for: token)
        case .url(let url):
            let keys = parts.keySets.set(of: url)?.keys(for: token) ?? []
            if keys.isEmpty { parts.keySets.want(url) }
            return keys
        }
    }
}
