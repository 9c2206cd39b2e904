/// Which subjects of one credential are kept, and which of them makes room for another one.
///
/// Clients name the subjects, and a hostile client can invent any number of them. So room is shared out by client:
///
/// 1. A subject that never had a token makes room first. One of the asking client goes before those of others.
/// 2. Then the client with the most subjects makes room. Among equals it is the client that asks.
/// 3. Among its subjects it is the one that was not named for the longest time.
///
/// A client therefore takes no place from another client that has as few subjects as itself or fewer. A subject that several
/// clients name counts for each of them, and is as safe as the client with the fewest subjects makes it.
///
/// The operator takes a place from any client, in the same order. A subject that only the operator has named counts for no
/// client, and is removed before those of clients.
package struct SubjectTable<Member> {
    package enum Use {
        case known(Member)
        case new(Member, dropped: Member?)
        /// No subject can make room.
        case full
    }

    /// What keeps a member from making room, or lets it go first.
    package enum State: Hashable, Sendable {
        /// A call is under way, or somebody waits for one.
        case busy
        case idle(hadToken: Bool)
    }

    /// Who names a subject.
    package enum Asker: Hashable, Sendable {
        /// nil is everybody without a name.
        case client(String?)
        case `operator`
    }

    private struct Entry {
        let member: Member
        var lastUse: UInt64
        /// The clients that have named it; nil stands for all clients without a name. Operators are not counted.
        var clients: [String?] = []
    }

    private let limit: Int
    private var entries: [String: Entry] = [:]
    private var uses: UInt64 = 0
    /// How many subjects each client has named.
    private var counts: [String?: Int] = [:]

    package init(limit: Int) { self.limit = limit }

    package var count: Int { entries.count }

    /// All members, in the order of their subjects.
    package var members: [Member] { entries.sorted { $0.key < $1.key }.map(\.value.member) }

    /// The member without a use of it.
    package subscript(subject: String) -> Member? { entries[subject]?.member }

    /// The member of a subject that somebody names, or a new one.
    ///
    /// - Parameters:
    ///   - state: The state of a member now.
    package mutating func use(
        _ subject: String,
        by asker: Asker,
        state: (Member) -> State,
        make: () -> Member
    ) -> Use {
        uses += 1
        defer { checkInvariants(after: subject) }
        if let known = touch(subject, by: asker) { return .known(known) }
        var dropped: Member?
        if entries.count >= limit {
            guard let victim = whoMakesRoom(for: asker, state: state) else { return .full }
            dropped = remove(victim)
        }
        let member = make()
        entries[subject] = Entry(member: member, lastUse: uses)
        _ = touch(subject, by: asker)
        return .new(member, dropped: dropped)
    }

    private mutating func touch(_ subject: String, by asker: Asker) -> Member? {
        guard let index = entries.index(forKey: subject) else { return nil }
        entries.values[index].lastUse = uses
        if case .client(let client) = asker, !entries.values[index].clients.contains(client) {
            entries.values[index].clients.append(client)
            counts[client, default: 0] += 1
        }
        return entries.values[index].member
    }

    private mutating func remove(_ subject: String) -> Member? {
        guard let entry = entries.removeValue(forKey: subject) else { return nil }
        for client in entry.clients {
            let rest = counts[client, default: 1] - 1
            counts[client] = rest > 0 ? rest : nil
        }
        return entry.member
    }

    // MARK: Invariants

    /// - Parameter subject: The one that was named. There may be very many others.
    private func checkInvariants(after subject: String) {
        assert(entries.count <= limit, "More subjects are kept than there may be.")
        assert(
            entries[subject].map { $0.lastUse == uses && $0.clients.allSatisfy { (counts[$0] ?? 0) > 0 } } ?? true,
            "A subject that was named does not count for a client that has named it."
        )
        assert(
            entries.count > 16
                || entries.values.reduce(0) { $0 + Set($1.clients).count } == counts.values.reduce(0, +),
            "The subjects of all clients do not add up to those that are kept."
        )
    }

    // MARK: Making room

    /// What goes first is greater.
    private struct Rank: Comparable {
        let neverHadToken: Bool
        let isOwn: Bool
        /// How many subjects the client has that has the fewest among those who named this one.
        let subjects: Int
        let lastUse: UInt64

        static func < (one: Rank, other: Rank) -> Bool {
            if one.neverHadToken != other.neverHadToken { return other.neverHadToken }
            if one.neverHadToken, one.isOwn != other.isOwn { return other.isOwn }
            if one.subjects != other.subjects { return one.subjects < other.subjects }
            if one.isOwn != other.isOwn { return other.isOwn }
            return one.lastUse > other.lastUse
        }
    }

    private func whoMakesRoom(for asker: Asker, state: (Member) -> State) -> String? {
        var first: (subject: String, rank: Rank)?
        for (subject, entry) in entries {
            guard case .idle(let hadToken) = state(entry.member) else { continue }
            guard let rank = rank(of: entry, hadToken: hadToken, for: asker) else { continue }
            if first.map({ $0.rank < rank }) ?? true { first = (subject, rank) }
        }
        return first?.subject
    }

    /// nil: it makes no room for this one.
    private func rank(of entry: Entry, hadToken: Bool, for asker: Asker) -> Rank? {
        guard case .client(let client) = asker else {
            let subjects = entry.clients.map { counts[$0, default: 0] }.min() ?? .max
            return Rank(neverHadToken: !hadToken, isOwn: false, subjects: subjects, lastUse: entry.lastUse)
        }
        // Counts the new subject, too.
        let own = counts[client, default: 0] + 1
        let subjects = entry.clients.map { $0 == client ? own : counts[$0, default: 0] }.min() ?? .max
        guard !hadToken || subjects >= own else { return nil }
        let isOwn = entry.clients == [client]
        return Rank(neverHadToken: !hadToken, isOwn: isOwn, subjects: subjects, lastUse: entry.lastUse)
    }
}
