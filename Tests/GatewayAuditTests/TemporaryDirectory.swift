import Foundation

/// A directory of one test's own, removed with the last reference to it.
final class TemporaryDirectory: Sendable {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.appendingPathComponent("authgateway-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Everything in the files whose names begin with `prefix`: the database, its write-ahead log and its head. Files
    /// that are on their way to replace another may be gone before they are read.
    func content(of prefix: String) throws -> [Data] {
        try FileManager.default.contentsOfDirectory(atPath: path).filter {
            $0.hasPrefix(prefix) && !$0.hasSuffix(".new")
        }.sorted().map {
            try Data(contentsOf: URL(fileURLWithPath: file($0)))
        }
    }

    func mode(of name: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: file(name))[.posixPermissions] as? Int
    }
}
