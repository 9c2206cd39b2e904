package import GatewayHTTP
import Synchronization

/// The sessions with which the requests of one route are signed: the nonces that its upstream has sent in challenges.
///
///     unsigned ──▶ challenge ──▶ the same request, signed ──▶ accepted: later requests are signed at once
///        ▲                                                        │
///        └─────────────────── another challenge ◀─────────────────┘
///
/// A session is first used by the request that got the challenge, and by no other one. Only when the upstream has
/// accepted that request do others use the session, too. So a wrong password is sent once for each request of a client,
/// as with `basic`.
///
/// All requests share one session, and its count, at first. Some servers refuse a count that arrives out of order
/// (Apache's `AuthDigestNcCheck`), or a nonce that was used once (`AuthDigestNonceLifetime 0`). From then on each
/// session is used by one request at a time.
///
/// A challenge of another upstream means nothing here. Event loops share it.
package final class SigningSessions: Sendable {
    /// One session, its count, and what is known of it.
    package final class Slot: Sendable {
        fileprivate let session: any SigningSession
        private let count = Atomic<UInt32>(0)
        /// The upstream has accepted it, or has offered it in a response that accepted another one: the password is
        /// right.
        fileprivate let isProven: Atomic<Bool>
        /// Several requests may use it at the same time.
        fileprivate let isShared = Atomic(false)
        /// The upstream has offered another one in its place.
        fileprivate let isReplaced = Atomic(false)

        fileprivate init(_ session: any SigningSession, isProven: Bool = false) {
            self.session = session
            self.isProven = Atomic(isProven)
        }

        /// The count has eight digits in Digest. After the last one it begins again: the upstream refuses that request,
        /// which is then sent with a new nonce.
        package func sign(_ request: SignableRequest) -> RequestSignature {
            session.sign(request, number: count.wrappingAdd(1, ordering: .relaxed).newValue)
        }
    }

    /// How a request is sent.
    package enum Turn: Sendable {
        case unsigned
        case signed(Slot)

        package var isSigned: Bool { if case .signed = self { true } else { false } }
    }

    /// How many sessions are kept that no request uses.
    package static let maximumIdle = 64

    private let signer: any ChallengeSigner
    private let state = Mutex(State())

    private struct State {
        /// Accepted ones that requests may use, the last one first. One at most unless ``isExclusive`` is set.
        var idle: [Slot] = []
        /// A session is used by one request at a time.
        var isExclusive = false

        mutating func keep(_ slot: Slot) {
            if idle.count >= SigningSessions.maximumIdle { idle.removeFirst() }
            idle.append(slot)
        }
    }

    package init(_ signer: any ChallengeSigner) { self.signer = signer }

    /// How the next request is sent.
    package func take() -> Turn {
        state.withLock { state in
            guard let slot = state.idle.last else { return .unsigned }
            if state.isExclusive || !slot.isProven.load(ordering: .relaxed) {
                state.idle.removeLast()
            } else {
                slot.isShared.store(true, ordering: .relaxed)
            }
            return .signed(slot)
        }
    }

    /// The upstream has refused a request with these challenges.
    ///
    /// - Parameter turn: How the request was sent.
    /// - Returns: How the same request is sent again; nil if it stays refused.
    package func answer(_ challenges: [AuthChallenge], to turn: Turn) -> Turn? {
        let session = signer.session(answering: challenges, clientNonce: Hexadecimal.random(bytes: 16))
        guard case .signed(let slot) = turn else { return session.map { .signed(Slot($0)) } }
        guard let session else {
            // A challenge that cannot be answered says nothing about the session.
            answered(turn, isAccepted: false, info: nil)
            return nil
        }
        return state.withLock { state in
            state.idle.removeAll { $0 === slot }
            let isProven = slot.isProven.load(ordering: .relaxed)
            if session.isStale {
                // A nonce that another request has used up, or made useless by its own challenge, was good for one
                // request.
                guard slot.isReplaced.load(ordering: .relaxed) || !isProven else { return .signed(Slot(session)) }
            } else if !isProven {
                // The password is wrong. Repeating it locks the account, so sessions that it was right for are not
                // tried either.
                state.idle = []
                return nil
            }
            // The password is right. The upstream has counted otherwise, has restarted, or wants another realm.
            if !state.isExclusive { (state.isExclusive, state.idle) = (true, []) }
            // Such a server may count all that was sent under one `opaque`. Unless nobody else has used that, the
            // request begins anew.
            return slot.isShared.load(ordering: .relaxed) || !isProven ? .unsigned : .signed(Slot(session))
        }
    }

    /// The upstream has answered a request without a challenge.
    ///
    /// - Parameters:
    ///   - isAccepted: The response says that the credentials were right.
    ///   - info: The value of `Authentication-Info`, if the response has it.
    package func answered(_ turn: Turn, isAccepted: Bool, info: [UInt8]?) {
        guard case .signed(let slot) = turn else { return }
        let next = isAccepted ? info.flatMap { slot.session.next(after: $0) } : nil
        if isAccepted { slot.isProven.store(true, ordering: .relaxed) }
        if next != nil { slot.isReplaced.store(true, ordering: .relaxed) }
        guard slot.isProven.load(ordering: .relaxed) else { return }
        state.withLock { state in
            if let next {
                if !state.isExclusive { state.idle = [] }
                state.keep(Slot(next, isProven: true))
            } else if state.isExclusive ? !slot.isShared.load(ordering: .relaxed) : state.idle.isEmpty {
                state.keep(slot)
            }
        }
    }

    /// A refused request cannot be sent again, because its body is gone. The next request takes its turn.
    ///
    /// - Parameter turn: What ``answer(_:to:)`` returned.
    package func leaveToNext(_ turn: Turn) {
        guard case .signed(let slot) = turn else { return }
        state.withLock { if $0.isExclusive || $0.idle.isEmpty { $0.keep(slot) } }
    }
}
