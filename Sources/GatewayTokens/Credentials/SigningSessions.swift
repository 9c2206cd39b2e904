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
/// An upstream may have several protection spaces (RFC 9110 section 11.5), each with a realm and sessions of its own. While
/// only one is known, its sessions are used for all paths. With several, a request is signed at once if its path, or the longest
/// known directory above it, was challenged for one of them.
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

    /// How many unused sessions of a realm are kept.
    package static let maximumIdle = 64
    /// How many realms are known. The one whose last challenge is the oldest is forgotten first.
    package static let maximumRealms = 8

    private let signer: any ChallengeSigner
    private let state = Mutex(State())

    private struct Space {
        /// How many ``places`` are kept, and how long one may be.
        static let maximumPlaces = 32
        static let longestPlace = 1024

        let realm: String
        /// Accepted sessions that requests may use, the last one first. One at most unless ``isExclusive`` is set.
        var idle: [Slot] = []
        /// A session is used by one request at a time.
        var isExclusive = false
        /// The paths that were challenged, and their directories. No other space has the same ones.
        private(set) var places: [[UInt8]] = []

        init(realm: String) { self.realm = realm }

        mutating func keep(_ slot: Slot) {
            if idle.count >= SigningSessions.maximumIdle { idle.removeFirst() }
            idle.append(slot)
        }

        /// A request got its response, and leaves its session to others.
        mutating func giveBack(_ slot: Slot) {
            guard slot.isProven.load(ordering: .relaxed) else { return }
            if isExclusive ? !slot.isShared.load(ordering: .relaxed) : idle.isEmpty { keep(slot) }
        }

        mutating func add(_ place: [UInt8]) {
            guard place.count <= Self.longestPlace else { return }
            if places.count >= Self.maximumPlaces { places.removeFirst() }
            places.append(place)
        }

        mutating func remove(_ place: [UInt8]) { places.removeAll { $0 == place } }

        /// The length of the longest place that is this path or a directory above it; nil if there is none.
        func match(_ path: [UInt8]) -> Int? {
            places.filter { $0 == path || $0.last == slash && path.starts(with: $0) }.map(\.count).max()
        }
    }

    private static let slash = UInt8(ascii: "/")

    private struct State {
        /// The one with the latest challenge is the last.
        var spaces: [Space] = []

        func index(of slot: Slot) -> Int? { spaces.firstIndex { $0.realm == slot.session.realm } }

        /// The space whose sessions are for this path; nil if that is not known.
        func index(for path: [UInt8]) -> Int? { spaces.count > 1 ? known(path) : spaces.indices.first }

        /// The space that has challenged this path, or its directory.
        func known(_ path: [UInt8]) -> Int? {
            let matches = spaces.indices.compactMap { index in spaces[index].match(path).map { (index, length: $0) } }
            return matches.max { $0.length < $1.length }?.0
        }

        /// Moves the space of this realm to the end.
        mutating func challenged(_ path: [UInt8], by realm: String) {
            let known = spaces.firstIndex { $0.realm == realm }
            let space = known.map { spaces.remove(at: $0) } ?? Space(realm: realm)
            if spaces.count >= SigningSessions.maximumRealms { spaces.removeFirst() }
            spaces.append(space)
            // The directory first, so that it is forgotten before the path.
            let directory = path.prefix((path.lastIndex(of: slash) ?? -1) + 1)
            for place in directory.count == path.count ? [path] : [Array(directory), path] where !place.isEmpty {
                for index in spaces.indices { spaces[index].remove(place) }
                spaces[spaces.count - 1].add(place)
            }
        }
    }

    package init(_ signer: any ChallengeSigner) { self.signer = signer }

    /// How the next request is sent.
    ///
    /// - Parameter path: As the upstream gets it, without a query.
    package func take(for path: [UInt8]) -> Turn {
        state.withLock { state in
            guard let index = state.index(for: path), let slot = state.spaces[index].idle.last else { return .unsigned }
            let isProven = slot.isProven.load(ordering: .relaxed)
            // A session that was not tried yet is for its own realm alone.
            guard isProven || state.known(path) == index else { return .unsigned }
            if state.spaces[index].isExclusive || !isProven {
                state.spaces[index].idle.removeLast()
            } else {
                slot.isShared.store(true, ordering: .relaxed)
            }
            return .signed(slot)
        }
    }

    /// The upstream has refused a request with these challenges.
    ///
    /// - Parameters:
    ///   - turn: How the request was sent.
    ///   - path: That of ``take(for:)``.
    /// - Returns: How the same request is sent again; nil if it stays refused.
    package func answer(_ challenges: [AuthChallenge], to turn: Turn, for path: [UInt8]) -> Turn? {
        guard let session = signer.session(answering: challenges, clientNonce: Hexadecimal.random(bytes: 16)) else {
            // A challenge that cannot be answered says nothing about the session.
            answered(turn, isAccepted: false, info: nil)
            return nil
        }
        return state.withLock { state in
            state.challenged(path, by: session.realm)
            guard case .signed(let slot) = turn else { return .signed(Slot(session)) }
            let isProven = slot.isProven.load(ordering: .relaxed)
            let index = state.index(of: slot)
            if slot.session.realm != session.realm, isProven {
                // Its session is still good, in its own realm.
                if let index { state.spaces[index].giveBack(slot) }
                return .signed(Slot(session))
            }
            if let index { state.spaces[index].idle.removeAll { $0 === slot } }
            if session.isStale {
                // A nonce that another request has used up, or made useless by its own challenge, was good for one
                // request.
                guard slot.isReplaced.load(ordering: .relaxed) || !isProven else { return .signed(Slot(session)) }
            } else if !isProven {
                // The password is wrong. Repeating it locks the account, so sessions that it was right for are not
                // tried either.
                if let index { state.spaces[index].idle = [] }
                return nil
            }
            // The password is right. The upstream has counted otherwise, or has restarted.
            if let index, !state.spaces[index].isExclusive {
                (state.spaces[index].isExclusive, state.spaces[index].idle) = (true, [])
            }
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
            guard let index = state.index(of: slot) else { return }
            guard let next else { return state.spaces[index].giveBack(slot) }
            if !state.spaces[index].isExclusive { state.spaces[index].idle = [] }
            state.spaces[index].keep(Slot(next, isProven: true))
        }
    }

    /// A refused request cannot be sent again, because its body is gone. The next request takes its turn.
    ///
    /// - Parameter turn: What ``answer(_:to:for:)`` returned.
    package func leaveToNext(_ turn: Turn) {
        guard case .signed(let slot) = turn else { return }
        state.withLock { state in
            guard let index = state.index(of: slot) else { return }
            if state.spaces[index].isExclusive || state.spaces[index].idle.isEmpty { state.spaces[index].keep(slot) }
        }
    }
}
