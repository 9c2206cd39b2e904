import GatewayHTTP

/// The record that renewals work on: which refresh token is sent next, which one is kept in reserve, and whether the one to be sent
/// may already be spent.
///
///     certain ──answer lost, next one unproven, journal or mark found──▶ uncertain
///        ▲                                                                   │
///        └──a token came, the refresh token is known to be unspent or gone───┘
///
/// It performs nothing: whatever a function changes has yet to be written to the store. No rule may lose the last refresh token
/// that is known to work.
struct RenewalRecord: Sendable {
    private let rotatesRefreshToken: Bool
    private let canAcquireAnew: Bool

    /// nil if there is no record.
    private(set) var token: StoredToken?
    /// A refresh token was sent, and no answer says whether it is spent.
    ///
    /// The record itself may say something else: the journal of a call makes nothing uncertain until the call fails.
    private(set) var isUncertain = false

    /// - Parameters:
    ///   - rotatesRefreshToken: See ``TokenGrant/rotatesRefreshToken``.
    ///   - canAcquireAnew: See ``TokenGrant/canAcquireAnew``.
    init(rotatesRefreshToken: Bool, canAcquireAnew: Bool) {
        self.rotatesRefreshToken = rotatesRefreshToken
        self.canAcquireAnew = canAcquireAnew
    }

    /// Whether the status shows the uncertainty: it matters only if the next token depends on the refresh token.
    var isRotationUncertain: Bool { isUncertain && !canAcquireAnew }

    /// The number of the next token.
    ///
    /// - Parameter highest: The highest generation so far.
    func nextGeneration(after highest: Int) -> Int { max(highest, token?.generation ?? 0) + 1 }

    // MARK: Another record

    /// Replaces the current record.
    mutating func replace(with token: StoredToken?) {
        self.token = token
        isUncertain = says(token)
    }

    /// Begins with a record from the store or the configuration. Only the record itself says whether it is uncertain.
    mutating func begin(with found: StoredToken) { isUncertain = says(found) }

    /// Whether the record says that its refresh token may be spent.
    private func says(_ token: StoredToken?) -> Bool {
        token?.isRefreshTokenUncertain(rotates: rotatesRefreshToken) ?? false
    }

    /// Why the refresh token is not sent without an operator.
    enum Hold: Hashable, Sendable {
        case refused(RefreshTokenRefusal)
        /// It comes from a backup and may have been spent since. A server that sees a spent refresh token again considers it
        /// stolen, and revokes its successor, too (RFC 9700 section 4.14.2).
        case restored
    }

    var hold: Hold? {
        guard let token, !token.isRevoked else { return nil }
        if let refusal = token.knownRefusal { return .refused(refusal) }
        return token.isRestored && says(token) && !canAcquireAnew ? .restored : nil
    }

    // MARK: A call

    /// The record with the journal of an attempt that is about to send the refresh token; nil if there is no record.
    func journalled(_ attempt: RotationAttempt) -> StoredToken? {
        guard var journalled = token else { return nil }
        journalled.attempt = attempt
        return journalled
    }

    /// The store has the record with this journal.
    mutating func noteJournal(_ attempt: RotationAttempt?) { token?.attempt = attempt }

    /// The record to store after an answer with a token.
    ///
    /// - Parameters:
    ///   - spent: The refresh token that was sent.
    ///   - journal: Set if the refresh token in the answer cannot be used, because then the one that was sent is probably spent.
    func successor(
        of spent: Secret?,
        with token: TokenSet,
        as generation: Int,
        _ journal: RotationAttempt?
    ) -> StoredToken {
        let isRotated = rotatesRefreshToken && token.refreshToken != spent
        // A refresh token that was not rotated needs no previous one.
        var successor = StoredToken(generation: generation, token: token, previousRefreshToken: isRotated ? spent : nil)
        if rotatesRefreshToken { successor.attempt = journal }
        return successor
    }

    /// No answer says whether the refresh token is spent.
    mutating func answerLost() { isUncertain = true }

    /// Keeps the next refresh token from an attempt that failed otherwise. The one that was sent is spent.
    ///
    /// While the next one is unproven, the journal stays. Because of it, this gateway, later starts, other gateways and earlier
    /// versions of the program send the next one first, and the previous one if that is refused.
    ///
    /// - Returns: Whether there is a next one.
    mutating func keep(_ state: RefreshTokenState, spending spent: Secret?) -> Bool {
        guard rotatesRefreshToken, var kept = token, let spent, let next = state.next, next != spent else {
            return false
        }
        let mayBeNone = state.isLost || state.isUnproven && !canAcquireAnew
        // The token that was sent may itself be invalid. Keep the last one that worked, however many such answers follow.
        let isSpentUnproven = state.isUnproven && kept.isUnproven && spent == kept.token.refreshToken
        kept.previousRefreshToken = isSpentUnproven ? kept.previousRefreshToken ?? spent : spent
        kept.isUnproven = state.isUnproven && mayBeNone
        kept.token.refreshToken = next
        kept.token.refreshTokenExpiresAt = nil
        kept.token.refreshTokenObtainedAt = nil
        kept.isRestored = false
        kept.refusal = nil
        if !mayBeNone { kept.attempt = nil }
        token = kept
        isUncertain = mayBeNone
        return true
    }

    /// The server has refused the refresh token, and the next token can be obtained without it, so it is not sent again.
    ///
    /// - Returns: Whether it was the record's refresh token.
    mutating func dropRefreshToken(_ refused: Secret?) -> Bool {
        guard let refused, var kept = token, kept.token.refreshToken == refused else { return false }
        kept.token.refreshToken = nil
        kept.token.refreshTokenExpiresAt = nil
        kept.token.refreshTokenObtainedAt = nil
        kept.isUnproven = false
        kept.attempt = nil
        kept.refusal = nil
        token = kept
        isUncertain = false
        return true
    }

    /// The server has refused the refresh token for good: no other gateway and no later start sends it by itself. The journal is
    /// removed.
    ///
    /// - Returns: false if something other than a login may help, or if the refusal is about another refresh token.
    mutating func noteRefusal(of sent: Secret?, by failure: TokenFailure) -> Bool {
        guard let stored = token?.token.refreshToken, stored == sent,
            let refusal = RefreshTokenRefusal(of: stored, by: failure, isRotationUncertain: isUncertain)
        else { return false }
        token?.refusal = refusal
        token?.attempt = nil
        isUncertain = says(token)
        return true
    }

    /// An operator wants the refresh token to be sent anyway, since the server may accept it again.
    mutating func forgetRefusal() { token?.refusal = nil }

    /// Removes the journal: the refresh token is known to be unspent, or known to be refused.
    ///
    /// - Returns: Whether there was a journal.
    mutating func strikeJournal() -> Bool {
        isUncertain = false
        guard token?.attempt != nil else { return false }
        token?.attempt = nil
        return true
    }

    /// Keeps showing the uncertainty from before the record changed, since it is why a login is needed.
    mutating func goOnShowing(isUncertain: Bool) { self.isUncertain = isUncertain }

    /// The upstream has rejected the token of this generation.
    ///
    /// - Returns: Whether it is the record's generation.
    mutating func reject(_ generation: Int) -> Bool {
        guard token?.generation == generation else { return false }
        token?.isRejected = true
        return true
    }

    // MARK: What others have written about the same token

    /// Takes over a journal that was read before the lease was granted: another gateway did not complete its attempt.
    ///
    /// - Returns: Whether there is a journal that was not known.
    mutating func takeUpJournal(of seen: StoredToken?) -> Bool {
        guard let known = token, let seen, seen.token == known.token, known.attempt == nil, let attempt = seen.attempt
        else { return false }
        token?.attempt = attempt
        isUncertain = true
        return true
    }

    /// Takes over the journal and the refusal from the store.
    mutating func follow(_ seen: StoredToken?) {
        if let seen, seen.token == token?.token {
            token?.attempt = seen.attempt
            token?.refusal = seen.refusal
        }
        isUncertain = says(token)
    }

    /// Takes over from another gateway that its refresh token was refused, or that an operator wants it to be sent again.
    mutating func followRefusal(of seen: StoredToken?) {
        guard let seen, seen.token == token?.token, seen.refusal != token?.refusal else { return }
        follow(seen)
    }

    /// Takes over what others have found out about the token, so that it is not overwritten.
    mutating func keepFindings(of seen: StoredToken?) {
        if let seen { token?.keepFindings(of: seen) }
        isUncertain = isUncertain || says(token)
    }

    // MARK: Logins and revocation

    /// The record after a login that brought only a refresh token. As after such an answer to a refresh, the earlier refresh token
    /// is kept as well, and sent if the new one is refused. Until then, an earlier access token is used.
    func login(with token: TokenSet, as generation: Int, _ journal: RotationAttempt) -> StoredToken {
        let earlier = self.token.flatMap { $0.isRevoked ? nil : $0 }
        var kept = earlier ?? StoredToken(generation: generation, token: token, isRejected: true)
        kept.generation = generation
        kept.token.refreshToken = token.refreshToken
        kept.token.refreshTokenExpiresAt = token.refreshTokenExpiresAt
        kept.token.refreshTokenObtainedAt = token.obtainedAt
        kept.token.addedScopes = token.addedScopes
        // A refresh token that was refused, or that comes from a backup, is not sent by itself.
        let isSent = earlier.map { $0.knownRefusal == nil && !$0.isRestored } ?? false
        let proven = earlier.flatMap { $0.isUnproven ? $0.previousRefreshToken : $0.token.refreshToken }
        kept.previousRefreshToken = isSent ? proven : nil
        kept.isUnproven = true
        kept.attempt = journal
        kept.isRestored = false
        kept.refusal = nil
        return kept
    }

    /// One for each refresh token that may still be valid; empty if there is no token.
    var tokensToRevoke: [TokenSet] {
        guard let token, !token.isRevoked else { return [] }
        guard token.isUnproven, let proven = token.previousRefreshToken, proven != token.token.refreshToken else {
            return [token.token]
        }
        var earlier = token.token
        earlier.refreshToken = proven
        return [earlier, token.token]
    }
}
