package import GatewayEvents
package import GatewayHTTP

/// Where the request path takes credentials from: the one point where a request meets a token.
///
/// Every call returns at once and may be made on an event loop.
package protocol CredentialSource: AnyObject, Sendable {
    /// The name from the configuration, with the subject when the route switched it.
    var name: String { get }
    var strategy: String { get }

    /// Whether a rejected credential can be replaced without a person.
    var isRenewable: Bool { get }

    /// The credential to inject now, if one is usable. Changes nothing and starts nothing.
    func current(at now: MonotonicTime) -> CredentialAnswer

    /// What ``wait(for:_:)`` would come to as far as that is known without asking anybody. Begins nothing.
    func outlook(at now: MonotonicTime) -> CredentialAnswer

    /// Asks to be told once a credential is at hand. Call it after ``current(at:)`` answered ``CredentialAnswer/wait``.
    ///
    /// - Parameter done: Called exactly once, on any thread, perhaps before this method returns.
    /// - Returns: What ``cancel(_:)`` takes when the waiter goes away; leaving does not stop the renewal for others.
    func wait(
        for demand: CredentialRequest,
        _ done: @escaping @Sendable (Result<Credential, GatewayProblem>) -> Void
    ) -> CredentialTicket

    /// The waiter of `ticket` went away: its `done` is called with `requestTimeout`, unless it was called already.
    func cancel(_ ticket: CredentialTicket)

    /// The upstream said that this generation is not valid. A thousand late calls for one generation cause one renewal.
    func rejected(generation: Int, by demand: CredentialRequest)

    /// Which of its rejections count; nil where each does.
    var rejections: RejectionRecord? { get }

    /// Which token it keeps: equal for two that are the same token. nil for a credential without a grant.
    var grantKey: CredentialKey? { get }

    /// What the configuration holds and it injects as it is; nil where a token is injected.
    var fixed: FixedCredentialSource? { get }

    /// The source itself, where it answers challenges of the upstream; nil elsewhere. The runtime does not cache a failed cast, and
    /// would look through all conformances of the program with each rejection.
    var answering: (any ChallengeAnswering)? { get }

    /// Grows whenever an operator takes the credential from those who use it, by locking, revoking or clearing it: what was
    /// opened with it, a tunnel, ends then. A renewal does not count.
    var timesWithdrawn: Int { get }

    /// The upstream said that the token of this generation is valid and lacks these scopes (RFC 6750 section 3.1). Only a person can add
    /// them, so nothing is renewed.
    func lacks(_ scopes: [String], generation: Int, by demand: CredentialRequest)

    /// A generation was used on a route for the first time, a request was replayed, or went without its credential.
    func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest)
}

extension CredentialSource {
    package var rejections: RejectionRecord? { nil }
    package var grantKey: CredentialKey? { nil }
    package var fixed: FixedCredentialSource? { nil }
    package var answering: (any ChallengeAnswering)? { nil }
    package var timesWithdrawn: Int { 0 }
    package func outlook(at now: MonotonicTime) -> CredentialAnswer { current(at: now) }
    package func lacks(_ scopes: [String], generation: Int, by demand: CredentialRequest) {}
}

package enum CredentialAnswer: Sendable {
    case ready(Credential)
    /// Nothing usable now, but it may come: wait with a deadline.
    case wait
    case unavailable(GatewayProblem)
}

package struct CredentialTicket: Hashable, Sendable {
    package let id: UInt64
    package init(id: UInt64) { self.id = id }
}

package enum CredentialUseEvent: String, Sendable {
    case injected
    /// An engine was given it, which injects it itself.
    case handedOut = "handed_out"
    case replayed
    case withheld
}

/// Remembers on which routes a generation was used, because event loops report first uses each for itself.
struct FirstUses: Sendable {
    /// Bounded by the number of routes.
    private var generations: [String: Int] = [:]

    /// - Returns: Whether neither this generation nor a later one was reported on this route before.
    mutating func isFirst(generation: Int, route: String) -> Bool {
        guard generation > generations[route] ?? 0 else { return false }
        generations[route] = generation
        return true
    }
}
