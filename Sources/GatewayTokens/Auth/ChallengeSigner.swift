package import GatewayHTTP

/// Makes from a challenge of an upstream what later requests are signed with (``SigningSessions``). Pure.
package protocol ChallengeSigner: SignerDescription {
    /// - Parameter clientNonce: A random hexadecimal number that nobody can guess.
    /// - Returns: nil if none of the challenges may be answered.
    func session(answering challenges: [AuthChallenge], clientNonce: String) -> (any SigningSession)?
}

/// What requests are signed with after a challenge. Pure.
package protocol SigningSession: Sendable {
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
