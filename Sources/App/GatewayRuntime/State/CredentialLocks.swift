import Foundation
import GatewayCore
import GatewayFiles
import Synchronization

/// The credentials that operators have locked, by the names that they used; outlives the gateway.
///
/// A lock counts at once, whatever the disk does. One thread writes the file. Others wait for it for a limited time.
final class CredentialLocks: Sendable {
    private struct State {
        var names: Set<String>
        /// What the file holds.
        var stored: Set<String>
    }

    private static let writeLimit: Duration = .seconds(3)

    private let path: String
    private let state: Mutex<State>
    private let thread = DispatchQueue(label: "credential-locks")

    static func path(in stateDirectory: String) -> String { "\(stateDirectory)/locks.json" }

    /// - Throws: When the file is there and cannot be read: what was locked must not be used by mistake.
    init(in stateDirectory: String) throws(StateError) {
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

    func contains(_ name: String) -> Bool { state.withLock { $0.names.contains(name) } }

    /// Locks for as long as the gateway runs.
    func hold(_ name: String) { state.withLock { _ = $0.names.insert(name) } }

    /// - Throws: When the lock ends with the gateway, because it could not be stored.
    func lock(_ name: String) async throws(StateError) {
        hold(name)
        try await store()
    }

    /// - Throws: When they stay locked.
    func unlock(_ all: [String]) async throws(StateError) {
        let removed = state.withLock { state in
            defer { state.names.subtract(all) }
            return state.names.intersection(all)
        }
        do throws(StateError) {
            try await store()
        } catch {
            state.withLock { $0.names.formUnion(removed) }
            throw error
        }
    }

    /// Writes what could not be written before.
    func storeAgain() async { try? await store() }

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
