package import GatewayHTTP

/// One attempt to obtain or to revoke a token, of one step or several: what a grant may know while it lasts.
///
/// Nothing of it outlives the attempt.
package struct GrantAttempt: Sendable {
    /// More steps than this are a loop, and the attempt fails.
    package static let maximumSteps = 16

    /// The token at hand; it may be dead.
    package let held: TokenSet?
    /// When the attempt began, then when the last answer had arrived.
    package var now: Moment
    /// 128 random bits in hexadecimal, new for every attempt: with ``answers`` behind it, what makes an assertion unique.
    package let nonce: String
    /// How many answers there have been.
    package var answers = 0
    /// What earlier steps put aside for later ones.
    package var outputs: [String: Secret] = [:]
    /// What was unexpected in an answer that was usable all the same: sentences for the log, without the authorization server's words.
    package var remarks: [String] = []
    /// For grants that may give up one way and begin another: how many answers there had been when they did.
    package var restartedAfterStep: Int?

    /// The refresh was tried often enough without a clear answer. A grant that can then asks for a token anew, with what the
    /// configuration holds.
    package var mayAcquireAnew = false
    /// An earlier refresh was cut off, so the refresh token may be spent. A grant that can asks for a token anew at once.
    package var isRefreshTokenUncertain = false
    /// The authorization server has refused the refresh token in this attempt.
    package var isRefreshTokenRefused = false
    /// A token came beside a next refresh token that cannot be used, so the one that was sent is probably spent and nothing
    /// takes its place.
    package var isRefreshTokenSpent = false

    /// The token of the credential that this one is made from; nil where there is none.
    package var parentToken: Secret?

    package init(holding held: TokenSet?, at now: Moment, nonce: String) {
        self.held = held
        self.now = now
        self.nonce = nonce
    }

    /// The access token at hand is that of the configuration: no answer has brought it.
    var holdsSeed = false

    /// Whether the authorization server has given a token for what is presented now: a token that was only brought has proven nothing.
    var hasWorked: Bool { !holdsSeed && held.map { !$0.access.isEmpty } ?? false }

    /// What no answer may repeat to anybody.
    package var secrets: [Secret] {
        let tokens = [held?.access, held?.refreshToken, parentToken].compactMap(\.self)
        return tokens + (held.map { Array($0.extras.values) } ?? []) + outputs.values
    }
}

package enum GrantStep: Sendable {
    case request(TokenRequest)
    /// What the program prints is interpreted as a ``TokenReply`` without a status.
    case run(TokenProgram)
    /// The grant has made the token itself: no authorization server is asked, and there is no answer to interpret.
    case token(TokenSet)
    /// There is nothing to ask for: a person must act, or the token is past its end.
    case impossible(TokenFailure)
}

package enum GrantAnswer: Hashable, Sendable {
    case token(TokenSet)
    case failure(TokenFailure)
    /// There is more to ask before there is a token.
    case next(TokenRequest)

    /// The authorization server no longer accepts the token of the credential that this one is made from.
    case parentRefused(TokenFailure)

    package init(_ result: Result<TokenSet, TokenFailure>) {
        switch result {
        case .success(let token): self = .token(token)
        case .failure(let failure): self = .failure(failure)
        }
    }
}

/// A refresh that is given up, and the refresh token that an attempt leaves.
extension GrantAttempt {
    /// Gives up the refresh, and goes on with what the configuration holds.
    package mutating func beginAnew(after error: RefreshError) {
        restartedAfterStep = answers
        isRefreshTokenRefused = error.endsRefreshToken
        outputs = [:]
    }

    /// The refresh token for the next renewal, from an answer of this attempt. It is kept even if the attempt fails, because the one that
    /// was sent is spent.
    ///
    /// nil once the attempt obtains a token in another way: a refresh token from there belongs to a token that does not exist yet.
    package var nextRefreshToken: Secret? {
        get { restartedAfterStep == nil ? outputs["renewal"] : nil }
        set { outputs["renewal"] = newValue }
    }
}

/// What an error means for the rest of an attempt.
extension RefreshError {
    /// Whether an error that blames the request may as well be the end of the refresh token: the same request has worked before.
    /// Some servers answer `invalid_request` to a refresh token that has expired (github.com/xee-lab/xee-api-docs/issues/82).
    package func mayEndLogin(in attempt: GrantAttempt) -> Bool { self == .request && attempt.hasWorked }

    /// Whether the grant asks for a token anew within the same attempt, with what the configuration holds.
    ///
    /// A refused refresh token asks for it at once. Where the answer says nothing about the refresh token, it is asked for
    /// when the refresh has been tried often enough.
    package func acquiresAnew(in attempt: GrantAttempt) -> Bool {
        switch self {
        case .refused: true
        case .suspect, .configuration, .request: attempt.mayAcquireAnew
        case .personNeeded, .transient: false
        }
    }
}

/// What a revocation begins with: it has steps, as obtaining a token has.
package enum RevocationStep: Hashable, Sendable {
    case request(TokenRequest)
    /// Why the authorization server cannot be told, and what would change that: whole sentences.
    case impossible(String)
}

package enum RevocationAnswer: Hashable, Sendable {
    case revoked
    case failure(GatewayProblem)
    /// There is more to ask before the token is worth nothing.
    case next(TokenRequest)
}

extension RevocationAnswer {
    /// RFC 7009 §2.2.
    package init(_ reply: TokenReply) {
        if (200..<300).contains(reply.status) || reply.saysThatTheTokenIsUnknown {
            self = .revoked
        } else {
            self = .failure(reply.refusalToRevoke(by: "The authorization server"))
        }
    }
}
