import Foundation
package import GatewayFiles
import GatewayHTTP
package import GatewayTokens
import Synchronization

/// The credentials that operators have locked, by the names that they used; outlives the gateway.
///
/// A lock counts at once, whatever the disk does. One thread writes the file. Others wait for it for a limited time.
///
/// Where gateways share a token store, they share the locks in it. The file is a copy then: a gateway that starts without the
/// store keeps to it.
package final class CredentialLocks: Sendable {
    private struct State {
        /// Other gateways lock and unlock as well.
        let isShared: Bool
        var locked: LockedNames
        /// What the file holds.
        var stored: StoredLocks
        /// See ``takeUnlockedByStore()``.
        var unlockedByStore: Set<String> = []

        var names: Set<String> { locked.names }
        /// What the file has to hold. A name stays in it until its end is taken, so that no restart loses that.
        var toStore: StoredLocks {
            StoredLocks(names: names.union(unlockedByStore), untold: isShared ? locked.untold : [])
        }
    }

    private static let writeLimit: Duration = .seconds(3)
    /// How long the answer to a lock waits for what others have to know.
    static let tellLimit = FleetQuestion.limit

    private let path: String
    private let shared: (any SharedLocks)?
    private let state: Mutex<State>
    private let thread = DispatchQueue(label: "credential-locks")

    package static func path(in stateDirectory: String) -> String { "\(stateDirectory)/locks.json" }

    /// - Parameter shared: What other gateways use as well; nil when the file is all there is.
    /// - Throws: When the file is there and cannot be read: what was locked must not be used by mistake.
    package init(in stateDirectory: String, shared: (any SharedLocks)? = nil) throws(StateError) {
        self.shared = shared
        path = Self.path(in: stateDirectory)
        let found = try StoredLocks(readFrom: path)
        var locked = LockedNames(found.names)
        if shared != nil { for name in found.untold { locked.lock(name) } }
        state = Mutex(State(isShared: shared != nil, locked: locked, stored: found))
    }

    /// Whether other gateways lock and unlock here as well.
    package var isShared: Bool { shared != nil }

    package func contains(_ name: String) -> Bool { state.withLock { $0.names.contains(name) } }

    /// Locks for as long as the gateway runs.
    func hold(_ name: String) { state.withLock { $0.locked.lock(name) } }

    /// - Throws: When the lock ends with the gateway, or when other gateways do not know it. It counts here all the same.
    func lock(_ name: String) async throws(LockFailure) {
        hold(name)
        // A disk that does not answer must not keep it from others.
        let (untold, unstored) = await SideBySide.results {
            await self.tell(of: name)
        } and: {
            await failure { () async throws(StateError) in try await store() }
        }
        let error = LockFailure(file: unstored, others: untold)
        guard error == LockFailure() else { throw error }
        // The file may still say that others do not know it. Then a restart would lock again what they have unlocked.
        await storeAgain()
    }

    /// After the limit, it is still told.
    private func tell(of name: String) async -> StateError? {
        let end = await Deadline.value(within: Self.tellLimit) { [self] in
            await failure { () async throws(StateError) in try await share([name]) }
        }
        if let end { return end }
        return Self.untold("the token store did not answer within \(Self.tellLimit.secondsRoundedUp) s")
    }

    private static func untold(_ reason: String) -> StateError {
        StateError("other gateways cannot be told about the locks: \(reason)")
    }

    private func failure(of body: () async throws(StateError) -> Void) async -> StateError? {
        do throws(StateError) {
            try await body()
            return nil
        } catch {
            return error
        }
    }

    /// - Throws: When they stay locked.
    func unlock(_ all: [String]) async throws(StateError) {
        let removed = state.withLock { state in
            let removed = state.names.intersection(all)
            state.locked.unlock(removed)
            return removed
        }
        do throws(StateError) {
            // First where others read it: a name that they unlock by themselves must not come back.
            try await share(removed)
            try await store()
        } catch {
            state.withLock { state in for name in removed { state.locked.lock(name) } }
            throw error
        }
    }

    /// Writes what could not be written before.
    func storeAgain() async { try? await store() }

    // MARK: Other gateways

    /// Takes over what other gateways have locked, before anything asks for locks. What the store answers later is not taken
    /// over here, because no caller would learn of it. Without the store, what this gateway knew last holds.
    func begin(until deadline: ContinuousClock.Instant) async {
        guard let shared, deadline > .now else { return }
        let question = state.withLock { $0.locked.ask() }
        let answer = await Deadline.value(within: deadline - .now) {
            try? await shared.update(locking: question.added, unlocking: question.removed)
        }
        guard let all = answer ?? nil else { return }
        _ = follow(all, to: question)
    }

    /// Takes over what other gateways have locked and unlocked, and tells them what they do not know yet. What this changes
    /// counts at once. ``Storage/look()`` writes it, so that a disk that hangs delays no request.
    ///
    /// - Returns: The names that are locked here, or unlocked, since; and what was followed, see ``SharedLockNames/upTo``.
    func synchronize() async throws(StateError) -> (changed: Set<String>, upTo: FleetMark?) {
        guard let shared else { return ([], nil) }
        let (question, all) = try await ask(shared)
        return (follow(all, to: question), all.upTo)
    }

    /// - Returns: The names that are locked here, or unlocked, since.
    private func follow(_ all: SharedLockNames, to question: LockedNames.Question) -> Set<String> {
        state.withLock { state in
            let changed = state.locked.follow(all.names, to: question, except: all.held)
            state.unlockedByStore.formUnion(changed.subtracting(state.names))
            return changed
        }
    }

    /// The names whose locks the store no longer has, though no operator of this gateway has removed them. Each is told once.
    func takeUnlockedByStore() -> Set<String> {
        state.withLock { state in
            defer { state.unlockedByStore = [] }
            return state.unlockedByStore
        }
    }

    /// - Throws: When others do not know what was done to one of these names.
    private func share(_ names: Set<String>) async throws(StateError) {
        guard let shared else {
            return state.withLock { state in
                let (names, question) = (state.locked.names, state.locked.ask())
                _ = state.locked.follow(names, to: question)
            }
        }
        // The next caller follows what others have changed: see `synchronize`.
        let (question, answer) = try await ask(shared)
        state.withLock { $0.locked.told(question, except: answer.held) }
        guard answer.held.isDisjoint(with: names) else {
            throw Self.untold(answer.reason ?? "others hold its record")
        }
    }

    private func ask(_ shared: any SharedLocks) async throws(StateError) -> (LockedNames.Question, SharedLockNames) {
        let question = state.withLock { $0.locked.ask() }
        do throws(TokenStoreError) {
            return (question, try await shared.update(locking: question.added, unlocking: question.removed))
        } catch {
            throw Self.untold(error.reason)
        }
    }

    /// Acts on whether one of these is locked, while it cannot be changed.
    ///
    /// - Parameter body: Returns what is left to do, which is done afterwards: it may call out, and no lock is held.
    func decide(_ some: [String], _ body: (_ isLocked: Bool) -> (@Sendable () -> Void)?) {
        let rest = state.withLock { body(!$0.names.isDisjoint(with: some)) }
        rest?()
    }

    private func store() async throws(StateError) {
        guard state.withLock({ $0.toStore != $0.stored }) else { return }
        let end = Promise<Result<Void, StateError>>()
        let watchdog = Task { [path] in
            // Cancelled when it is written before.
            guard (try? await Task.sleep(for: Self.writeLimit)) != nil else { return }
            let seconds = Self.writeLimit.wholeMilliseconds / 1000
            end.keep(.failure(StateError("cannot write \(path): its disk did not answer within \(seconds) s")))
        }
        defer { watchdog.cancel() }
        thread.async { end.keep(self.write()) }
        try await end.value().get()
    }

    /// Writes the present state. Called on the thread only.
    private func write() -> Result<Void, StateError> {
        let locks = state.withLock { $0.toStore }
        let text = locks.text
        guard text.utf8.count <= StoredLocks.limit else {
            return .failure(StateError("cannot write \(path): its names have more than \(StoredLocks.limit >> 20) MiB"))
        }
        return Result { () throws(StateError) in
            try StateFile.write(text, to: path)
            state.withLock { $0.stored = locks }
        }
    }
}

/// What `locks.json` holds: the names of locked credentials.
///
/// Names that other gateways have yet to be told of are objects: `["box", {"name": "duke", "untold": true}]`.
package struct StoredLocks: Equatable, Sendable {
    private enum Entry: Decodable {
        case told(String)
        case untold(String)

        private enum Key: CodingKey { case name, untold }

        init(from decoder: any Decoder) throws {
            if let name = try? decoder.singleValueContainer().decode(String.self) {
                self = .told(name)
                return
            }
            let object = try decoder.container(keyedBy: Key.self)
            let name = try object.decode(String.self, forKey: .name)
            self = try object.decode(Bool.self, forKey: .untold) ? .untold(name) : .told(name)
        }
    }

    /// The names of a large configuration have room, and those of many subjects.
    package static let limit = 64 << 20

    package var names: Set<String>
    /// The ``names`` that other gateways have yet to be told of.
    var untold: Set<String>

    init(names: Set<String>, untold: Set<String> = []) {
        self.names = names
        self.untold = untold
    }

    /// Nothing where there is no file.
    ///
    /// - Throws: When it is there and cannot be read: what was locked must not be used by mistake.
    package init(readFrom path: String) throws(StateError) {
        let content: [UInt8]?
        do throws(BoundedFile.Failure) {
            content = try BoundedFile.read(path, limit: Self.limit).bytes
        } catch {
            content = error == .missing ? Array("[]".utf8) : nil
        }
        guard let content, let entries = try? JSONDecoder().decode([Entry].self, from: Data(content)) else {
            throw StateError(
                "\(path), which lists the locked credentials, cannot be read; correct it ([\"NAME\"]), or remove it to"
                    + " unlock all"
            )
        }
        self.init(names: [])
        for entry in entries {
            switch entry {
            case .told(let name): names.insert(name)
            case .untold(let name):
                names.insert(name)
                untold.insert(name)
            }
        }
    }

    package func union(_ other: StoredLocks) -> StoredLocks {
        StoredLocks(names: names.union(other.names), untold: untold.union(other.untold))
    }

    package var text: String {
        let entries = names.sorted().map { name in
            let quoted = JSONString.quoted(name)
            return untold.contains(name) ? "{\"name\": \(quoted), \"untold\": true}" : quoted
        }
        return "[\(entries.joined(separator: ", "))]\n"
    }
}

/// Why a lock does not hold everywhere, or not for good.
struct LockFailure: Error, Hashable {
    /// Why the file does not have it.
    var file: StateError?
    /// Why other gateways do not have it.
    var others: StateError?

    /// What an operator reads.
    func detail(of name: String) -> String {
        var text = [file, others].compactMap { $0 }.map { "\($0.description). " }.joined()
        text +=
            file == nil
            ? "\(name) is locked on this gateway, also after a restart."
            : "\(name) is locked, but only until the gateway stops. It tries to write the file again until then."
        if others != nil { text += " The other gateways do not know it yet. They follow when the store works again." }
        return text
    }
}

/// The credentials that operators have locked, read from the state directory. A command that runs beside the gateway sends none of
/// them, and no credential at all if the file cannot be read.
package struct LockedCredentials: Sendable {
    private let names: Set<String>
    private let failure: StateError?

    package init(_ plan: Plan) {
        do throws(StateError) {
            let stored = try StoredLocks(readFrom: CredentialLocks.path(in: plan.stateDirectory)).names
            names = Self.names(stored, in: plan.credentials)
            failure = nil
        } catch {
            (names, failure) = ([], error)
        }
    }

    /// Credentials with the same secret share a lock.
    private static func names(_ stored: Set<String>, in credentials: [CredentialPlan]) -> Set<String> {
        let locked = credentials.filter { stored.contains($0.name) }
        let secrets = Set(locked.compactMap { $0.strategy.injectedSecret?.secret })
        let sharing = credentials.filter { $0.strategy.injectedSecret.map { secrets.contains($0.secret) } ?? false }
        return Set((locked + sharing).map(\.name))
    }

    /// Why it is unknown what is locked; nil if the file was read.
    package var unknown: String? { failure.map { "it may be locked: \($0)" } }

    /// Whether the credential must not be sent.
    package func contains(_ name: String) -> Bool { failure != nil || names.contains(name) }
}
