import Foundation
import GatewayCore
import GatewayFiles

/// What `locks.json` holds: the names of locked credentials.
///
/// Those that other gateways have yet to be told of are objects: `["box", {"name": "duke", "untold": true}]`.
struct StoredLocks: Equatable, Sendable {
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
    static let limit = 64 << 20

    var names: Set<String>
    /// Of ``names``.
    var untold: Set<String>

    init(names: Set<String>, untold: Set<String> = []) {
        self.names = names
        self.untold = untold
    }

    /// Nothing where there is no file.
    ///
    /// - Throws: When it is there and cannot be read: what was locked must not be used by mistake.
    init(readFrom path: String) throws(StateError) {
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

    func union(_ other: StoredLocks) -> StoredLocks {
        StoredLocks(names: names.union(other.names), untold: untold.union(other.untold))
    }

    var text: String {
        let entries = names.sorted().map { name in
            let quoted = JSONString.quoted(name)
            return untold.contains(name) ? "{\"name\": \(quoted), \"untold\": true}" : quoted
        }
        return "[\(entries.joined(separator: ", "))]\n"
    }
}
