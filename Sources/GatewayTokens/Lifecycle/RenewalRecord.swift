import GatewayHTTP

/// The record that renewals work on: which refresh token is sent next, which one is kept beside it, and whether the one to be
/// sent may be spent already.
///
///     certain ──answer lost, next one unproven, journal or mark found──▶ uncertain
///        ▲                                                                   │
///        └──a token came, the refresh token is known to be unspent or gone───┘
///
/// Performs nothing. What a function has changed has yet to be written to the store. No rule may lose the last refresh token that
/// is known to work.
struct RenewalRecord: Sendable {
    private let rotatesRefreshToken: Bool
    private let canAcquireAnew: Bool

    /// nil when there is no record.
    private(set) var token: StoredToken?
    /// A refresh token was sent and no answer came that says what became of it.
    ///
    /// Not the same as what the record itself says: the journal of a call under way makes nothing uncertain before the call fails.
    private(set) var isUncertain = false

    /// - Parameters:
    ///   - rotatesRefreshToken: See ``TokenGrant/rotatesRefreshToken``.
    ///   - canAcquireAnew: See ``TokenGrant/canAcquireAnew``.
    init(rotatesRefreshToken: Bool, canAcquireAnew: Bool) {
        self.rotatesRefreshToken = rotatesRefreshToken
        self.canAcquireAnew = canAcquireAnew
    }

    /// Whether the status says so: nothing but the refresh token leads to the next token.
    var isRotationUncertain: Bool { isUncertain && !canAcquireAnew }

    /// The number of the next token.
    ///
    /// - Parameter highest: The highest generation there has been.
    func nextGeneration(after highest: Int) -> Int { max(highest, token?.generation ?? 0) + 1 }

    // MARK: Another record

    /// Takes another record in place of the present one.
    mutating func replace(with token: StoredToken?) {
        self.token = token
        isUncertain = says(token)
    }

    /// Begins with a record as it was found in the store or in the configuration: nothing but what it says itself counts.
    mutating func begin(with found: StoredToken) { isUncertain = says(found) }

    /// Whether the record itself says that its refresh token may be spent.
    private func says(_ token: StoredToken?) -> Bool {
        token?.isRefreshTokenUncertain(rotates: rotatesRefreshToken) ?? false
    }

    /// Why the refresh token is not sent by itself.
    enum Hold: Hashable, Sendable {
        case refused(RefreshTokenRefusal)
        /// It comes from a backup and may have been spent since. An authority that sees a spent refresh token again takes it for
        /// stolen, and ends the login for whoever holds its successor (RFC 9700 section 4.14.2).
        case restored
    }

    var hold: Hold? {
        guard let token, !token.isRevoked else { return nil }
        if let refusal = token.knownRefusal { return .refused(refusal) }
        return token.isRestored && says(token) && !canAcquireAnew ? .restored : nil
    }

    // MARK: A call

    /// The record with the journal of an attempt that is about to send the refresh token; nil when there is no record.
    func journalled(_ attempt: RotationAttempt) -> StoredToken? {
        guard var journalled = token else { return nil }
        journalled.attempt = attempt
        return journalled
    }

    /// The store has taken the record with this journal.
    mutating func noteJournal(_ attempt: RotationAttempt?) { token?.attempt = attempt }

    /// What is stored of an answer that has brought a token.
    ///
    /// - Parameters:
    ///   - spent: The refresh token that was sent.
    ///   - journal: nil unless the refresh token in the answer cannot be used: the one that was sent is probably spent then.
    func successor(
        of spent: Secret?,
        with token: TokenSet,
        as generation: Int,
        _ journal: RotationAttempt?
    ) -> StoredToken {
        let isRotated = rotatesRefreshToken && token.refreshToken != spent
        // One that has just worked needs no previous one.
        var successor = StoredToken(generation: generation, token: token, previousRefreshToken: isRotated ? spent : nil)
        if rotatesRefreshToken { successor.attempt = journal }
        return successor
    }

    /// Takes that no answer says what became of the refresh token.
    mutating func answerLost() { isUncertain = true }

    /// Takes the next refresh token of an attempt that failed all the same: the one that was sent is spent.
    ///
    /// While the next one is unproven, the journal stays. With it, this gateway, a later start, other gateways and earlier
    /// versions of the program send the next one first, and the previous one if that is refused.
    ///
    /// - Returns: Whether there is a next one.
    mutating func keep(_ state: RefreshTokenState, spending spent: Secret?) -> Bool {
        guard rotatesRefreshToken, var kept = token, let spent, let next = state.next, next != spent else {
            return false
        }
        let mayBeNone = state.isLost || state.isUnproven && !canAcquireAnew
        // What was sent may be none itself. The last one that has worked must outlive a row of such answers.
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

    /// The authority has refused the refresh token, and there is another way to the next token: it is not sent again.
    ///
    /// - Returns: Whether it was the one of the record.
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

    /// The authority has refused the refresh token for good: no other gateway and no later start sends it by itself. The journal
    /// is struck then.
    ///
    /// - Returns: false when the failure leaves something else to do than to log in, or is about another refresh token.
    mutating func noteRefusal(of sent: Secret?, by failure: TokenFailure) -> Bool {
        guard let stored = token?.token.refreshToken, stored == sent,
            let refusal = RefreshTokenRefusal(of: stored, by: failure, isRotationUncertain: isUncertain)
        else { return false }
        token?.refusal = refusal
        token?.attempt = nil
        isUncertain = says(token)
        return true
    }

    /// An operator has the refresh token sent all the same: the authority may accept it again.
    mutating func forgetRefusal() { token?.refusal = nil }

    /// The refresh token is known to be unspent, or known to be refused.
    ///
    /// - Returns: Whether there was a journal.
    mutating func strikeJournal() -> Bool {
        isUncertain = false
        guard token?.attempt != nil else { return false }
        token?.attempt = nil
        return true
    }

    /// Leaves shown what was before the record changed, since it is why a login is needed.
    mutating func goOnShowing(isUncertain: Bool) { self.isUncertain = isUncertain }

    /// The upstream has rejected the token of this generation.
    ///
    /// - Returns: Whether it is the one of the record.
    mutating func reject(_ generation: Int) -> Bool {
        guard token?.generation == generation else { return false }
        token?.isRejected = true
        return true
    }

    // MARK: What others have written about the same token

    /// Takes up a journal that was read before the lease was granted: that of a gateway that did not end its attempt.
    ///
    /// - Returns: Whether there is one that was not known.
    mutating func takeUpJournal(of seen: StoredToken?) -> Bool {
        guard let known = token, let seen, seen.token == known.token, known.attempt == nil, let attempt = seen.attempt
        else { return false }
        token?.attempt = attempt
        isUncertain = true
        return true
    }

    /// Takes over the journal and the refusal as they are in the store.
    mutating func follow(_ seen: StoredToken?) {
        if let seen, seen.token == token?.token {
            token?.attempt = seen.attempt
            token?.refusal = seen.refusal
        }
        isUncertain = says(token)
    }

    /// Takes over that the authority has refused the refresh token to another gateway, or that an operator there has it sent again.
    mutating func followRefusal(of seen: StoredToken?) {
        guard let seen, seen.token == token?.token, seen.refusal != token?.refusal else { return }
        follow(seen)
    }

    /// Keeps what others have found out about the token from being overwritten.
    mutating func keepFindings(of seen: StoredToken?) {
        if let seen { token?.keepFindings(of: seen) }
        isUncertain = isUncertain || says(token)
    }

    // MARK: What a person brings, and takes away

    /// A login whose answer brought nothing that can be used but a refresh token, stored as after such an answer to a refresh:
    /// beside the earlier refresh token, which is sent if the new one is refused. An earlier token is used until then.
    func login(with token: TokenSet, as generation: Int, _ journal: RotationAttempt) -> StoredToken {
        let earlier = self.token.flatMap { $0.isRevoked ? nil : $0 }
        var kept = earlier ?? StoredToken(generation: generation, token: token, isRejected: true)
        kept.generation = generation
        kept.token.refreshToken = token.refreshToken
        kept.token.refreshTokenExpiresAt = token.refreshTokenExpiresAt
        kept.token.refreshTokenObtainedAt = token.obtainedAt
        // One that was refused, or that may have been spent since a backup, is not sent by itself.
        let isSent = earlier.map { $0.knownRefusal == nil && !$0.isRestored } ?? false
        let proven = earlier.flatMap { $0.isUnproven ? $0.previousRefreshToken : $0.token.refreshToken }
        kept.previousRefreshToken = isSent ? proven : nil
        kept.isUnproven = true
        kept.attempt = journal
        kept.isRestored = false
        kept.refusal = nil
        return kept
    }

    /// One for each refresh token that may still be valid; none when there is no token.
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
