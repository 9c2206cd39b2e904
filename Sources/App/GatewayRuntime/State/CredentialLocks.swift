import Foundation
import GatewayCore
import GatewayFiles
import Synchronization

/// The credentials that operators have locked, by the names that they used; outlives the gateway.
///
/// A lock counts at once, whatever the disk does. One thread writes the file. Others wait for it for a limited time.
///
/// Where gateways share a token store, they share the locks in it. The file is a copy then: a gateway that starts without the
/// store keeps to it.
final class CredentialLocks: Sendable {
    private struct State {
        var names: Set<String>
        /// What the file holds.
        var stored: Set<String>
        /// What the shared store has yet to be told.
        var added: Set<String> = []
        var removed: Set<String> = []

        mutating func lock(_ name: String) {
            names.insert(name)
            added.insert(name)
            removed.remove(name)
        }

        mutating func unlock(_ all: Set<String>) {
            names.subtract(all)
            removed.formUnion(all)
            added.subtract(all)
        }
    }

    private static let writeLimit: Duration = .seconds(3)

    private let path: String
    private let shared: (any SharedLocks)?
    private let state: Mutex<State>
    private let thread = DispatchQueue(label: "credential-locks")

    static func path(in stateDirectory: String) -> String { "\(stateDirectory)/locks.json" }

    /// - Parameter shared: What other gateways use as well; nil when the file is all there is.
    /// - Throws: When the file is there and cannot be read: what was locked must not be used by mistake.
    init(in stateDirectory: String, shared: (any SharedLocks)? = nil) throws(StateError) {
        self.shared = shared
        path = Self.path(in: stateDirectory)
        let content: [UInt8]?
        do throws(BoundedFile.Failure) {
            content = try BoundedFile.read(path, limit: 64 << 10).bytes
        } catch {
            content = error == .missing ? Array("[]".utf8) : nil
        }
        guard let content, let found = try? JSONDecoder().decode([String].self, from: Data(content)) else {
            throw StateError(
                "\(path), which lists the locked credentials, cannot be read; correct it ([\"NAME\"]), or remove it to"
                    + " unlock all"
            )
        }
        state = Mutex(State(names: Set(found), stored: Set(found)))
    }

    /// Whether other gateways lock and unlock here as well.
    var isShared: Bool { shared != nil }

    func contains(_ name: String) -> Bool { state.withLock { $0.names.contains(name) } }

    /// Locks for as long as the gateway runs.
    func hold(_ name: String) { state.withLock { $0.lock(name) } }

    /// - Throws: When the lock ends with the gateway, because it could not be stored.
    func lock(_ name: String) async throws(StateError) {
        hold(name)
        try await store()
        try await share()
    }

    /// - Throws: When they stay locked.
    func unlock(_ all: [String]) async throws(StateError) {
        let removed = state.withLock { state in
            let removed = state.names.intersection(all)
            state.unlock(removed)
            return removed
        }
        do throws(StateError) {
            // First where others read it: a name that they unlock by themselves must not come back.
            try await share()
            try await store()
        } catch {
            state.withLock { state in for name in removed { state.lock(name) } }
            throw error
        }
    }

    /// Writes what could not be written before.
    func storeAgain() async { try? await store() }

    // MARK: Other gateways

    /// Takes over what other gateways have locked and unlocked, and tells them what they do not know yet.
    ///
    /// - Returns: The names that are locked here, or unlocked, since; and what was followed, see ``SharedLockNames/upTo``.
    func synchronize() async throws(StateError) -> (changed: Set<String>, upTo: FleetMark?) {
        guard let shared else { return ([], nil) }
        let (added, removed) = state.withLock { ($0.added, $0.removed) }
        let all: SharedLockNames
        do throws(TokenStoreError) {
            all = try await shared.update(locking: added, unlocking: removed)
        } catch {
            throw StateError("the locks cannot be told to other gateways: \(error.reason)")
        }
        let changed = state.withLock { state in
            // An operator may have been here meanwhile.
            state.added.subtract(added)
            state.removed.subtract(removed)
            let names = all.names.union(state.added).subtracting(state.removed)
            defer { state.names = names }
            return state.names.symmetricDifference(names)
        }
        try? await store()
        return (changed, all.upTo)
    }

    private func share() async throws(StateError) {
        // The next caller follows what others have changed: see `synchronize`.
        guard let shared else { return state.withLock { ($0.added, $0.removed) = ([], []) } }
        let (added, removed) = state.withLock { ($0.added, $0.removed) }
        do throws(TokenStoreError) {
            _ = try await shared.update(locking: added, unlocking: removed)
        } catch {
            throw StateError("the locks cannot be told to other gateways: \(error.reason)")
        }
        state.withLock { state in
            state.added.subtract(added)
            state.removed.subtract(removed)
        }
    }

    /// Acts on whether one of these is locked, while it cannot be changed.
    func decide(_ some: [String], _ body: (_ isLocked: Bool) -> Void) {
        state.withLock { body(!$0.names.isDisjoint(with: some)) }
    }

    private func store() async throws(StateError) {
        guard state.withLock({ $0.names != $0.stored }) else { return }
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

    /// What counts by now. On the thread only.
    private func write() -> Result<Void, StateError> {
        let names = state.withLock { $0.names }
        let text = "[" + names.sorted().map(JSONString.quoted).joined(separator: ", ") + "]\n"
        return Result { () throws(StateError) in
            try StateFile.write(text, to: path)
            state.withLock { $0.stored = names }
        }
    }
}
