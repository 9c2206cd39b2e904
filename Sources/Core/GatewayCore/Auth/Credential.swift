/// One usable generation of a credential, published by its source and read by event loops.
///
/// A class, so that the request path compares and passes it without copying what is inside.
package final class Credential: Sendable {
    /// The name from the configuration, with the subject when the route switched it: `box-service[user:42]`.
    package let name: String
    /// Starts at 1 and grows with every new token. A rejection names the generation that was rejected.
    package let generation: Int
    package let injection: Injection
    /// Not to be injected from this moment on; nil for a credential that does not expire by itself.
    package let expiresAt: MonotonicTime?

    package init(name: String, generation: Int, injection: Injection, expiresAt: MonotonicTime? = nil) {
        self.name = name
        self.generation = generation
        self.injection = injection
        self.expiresAt = expiresAt
    }

    package func isUsable(at now: MonotonicTime) -> Bool {
        guard let expiresAt else { return true }
        return now < expiresAt
    }
}
