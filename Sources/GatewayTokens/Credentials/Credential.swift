package import GatewayHTTP
import Synchronization

/// One usable generation of a credential, published by its source and read by event loops.
///
/// A class, so that the request path compares and passes it without copying what is inside.
package final class Credential: Sendable {
    // First what every request asks, so that it lies together.

    /// The fields of ``injection`` as they are sent, each with its CRLF: once for all routes and event loops, a token can
    /// be long.
    package let fieldLines: SecretBytes
    /// Not to be injected from this moment on; nil for a credential that does not expire by itself.
    package let expiresAt: MonotonicTime?
    private let isWithdrawn = Atomic(false)
    /// While this one may not be injected, neither may the credential itself.
    private let companion: Credential?

    /// The name from the configuration, with the subject when the route switched it: `box-service[user:42]`.
    package let name: String
    /// Starts at 1 and grows with every new token. A rejection names the generation that was rejected.
    package let generation: Int
    package let injection: Injection
    /// Signs each request; nil if all requests carry the same.
    package let signer: Signer?

    /// - Parameter companion: The credential whose lock holds for this one, too; nil if it has a lock of its own.
    package init(
        name: String,
        generation: Int,
        injection: Injection,
        signer: Signer? = nil,
        expiresAt: MonotonicTime? = nil,
        offeredWith companion: Credential? = nil
    ) {
        self.companion = companion
        self.name = name
        self.generation = generation
        self.injection = injection
        self.signer = signer
        fieldLines = injection.lines
        self.expiresAt = expiresAt
    }

    /// It adds nothing to requests.
    package var isEmpty: Bool { injection.isEmpty && signer == nil }

    /// The names of all fields that it may fill.
    package var ownedFields: [String] { injection.fields.map(\.name) + (signer?.ownedFields ?? []) }

    package func isUsable(at now: MonotonicTime) -> Bool {
        guard let expiresAt else { return true }
        return now < expiresAt
    }

    /// Whether it may be injected without asking its source again.
    ///
    /// Event loops keep what they were given last and ask this of it: a source that all of them asked for each request would
    /// have them take turns.
    package func isOffered(at now: MonotonicTime) -> Bool {
        !isWithdrawn.load(ordering: .relaxed) && isUsable(at: now) && companion?.isOffered(at: now) ?? true
    }

    /// Its source has another one, or none: this one was replaced, rejected, revoked or locked.
    package func withdraw() { isWithdrawn.store(true, ordering: .relaxed) }

    /// Its source offers it again.
    package func offer() { isWithdrawn.store(false, ordering: .relaxed) }
}
