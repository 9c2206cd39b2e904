import FoundationEssentials
import GatewayCore
import GatewayFiles
import Synchronization

/// The credentials that operators have locked, by the names that they used; outlives the gateway.
final class CredentialLocks: Sendable {
    private let path: String
    private let names: Mutex<Set<String>>

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
        names = Mutex(Set(found))
    }

    func contains(_ name: String) -> Bool { names.withLock { $0.contains(name) } }

    func lock(_ name: String) throws(StateError) { try change { $0.insert(name) } }
    func unlock(_ all: some Sequence<String>) throws(StateError) { try change { $0.subtract(all) } }

    /// Acts on whether one of these is locked, while it cannot be changed.
    func decide(_ some: [String], _ body: (_ isLocked: Bool) -> Void) {
        names.withLock { body(!$0.isDisjoint(with: some)) }
    }

    private func change(_ body: (inout Set<String>) -> Void) throws(StateError) {
        try names.withLock { (names) throws(StateError) in
            var changed = names
            body(&changed)
            guard changed != names else { return }
            let text = "[" + changed.sorted().map(JSONString.quoted).joined(separator: ", ") + "]\n"
            try StateFile.write(text, to: path)
            names = changed
        }
    }
}
