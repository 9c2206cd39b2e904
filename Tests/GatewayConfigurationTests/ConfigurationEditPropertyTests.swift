import Foundation
import GatewayTesting
import Testing

@testable import GatewayConfiguration

/// Random edits of every example keep every other byte.
@Suite("Editing the examples", .timeLimit(.minutes(5)))
struct ConfigurationEditPropertyTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    static let files: [String] = {
        let below = FileManager.default.enumerator(atPath: root.appending(path: "examples").path)
        let names = (below?.allObjects as? [String] ?? []).filter { $0.hasSuffix(".yaml") }.sorted()
        return ["gateway.yaml"] + names.map { "examples/\($0)" }
    }()

    private static let entries: [ConfigurationText.Entry] = [
        .init("zz-one", value: ["strategy: bearer", "token:", "  env: TOKEN", "scopes: [a, b]"]),
        .init("zz-two", value: ["{preset: github}"], comment: ["Two lines", "of comment."]),
        .init("zz-three", value: ["upstream: https://a.example", "allow:", "  - {methods: [GET], path: /**}"]),
    ]

    private static func lines(_ bytes: [UInt8]) -> [ArraySlice<UInt8>] {
        bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map { line in
            line.last == UInt8(ascii: "\r") ? line.dropLast() : line
        }
    }

    /// Whether `part` is what is left of `whole` when lines are taken out of it.
    private static func isPart(_ part: [ArraySlice<UInt8>], of whole: [ArraySlice<UInt8>]) -> Bool {
        var rest = whole[...]
        return part.allSatisfy { line in
            guard let index = rest.firstIndex(of: line) else { return false }
            rest = rest[(index + 1)...]
            return true
        }
    }

    static func text(_ file: String) throws -> String {
        try String(contentsOf: root.appending(path: file), encoding: .utf8)
    }

    /// As it is, with the line breaks of Windows, and without the last line break.
    private static func variants(_ file: String) throws -> [[UInt8]] {
        let text = try text(file)
        let cut = text.hasSuffix("\n") ? String(text.dropLast()) : text
        return [text, text.replacing("\n", with: "\r\n"), cut].map { Array($0.utf8) }
    }

    @Test(arguments: files)
    func whatIsAddedLeavesEveryOtherLine(_ file: String) throws {
        for bytes in try Self.variants(file) {
            guard var text = try? ConfigurationText(bytes) else { continue }
            for entry in Self.entries {
                for section in ["credentials", "routes"] {
                    let before = text
                    guard (try? text.append(entry, to: section)) != nil else {
                        #expect(text.bytes == before.bytes)
                        continue
                    }
                    let wasInBraces = before.names(in: section) == [] || Self.isInBraces(section, before)
                    if !wasInBraces {
                        let isKept = Self.isPart(Self.lines(before.bytes), of: Self.lines(text.bytes))
                        #expect(isKept, "\(file): \(section)")
                    }
                    #expect(text.names(in: section) == (before.names(in: section) ?? []) + [entry.name])
                    // What was added can be taken out again, to the byte.
                    guard !wasInBraces, before.names(in: section) != nil, bytes.last == UInt8(ascii: "\n") else {
                        continue
                    }
                    var undone = text
                    try undone.remove(entry.name, from: section)
                    let isUndone = undone.bytes == before.bytes
                    #expect(isUndone, "\(file): \(section) \(entry.name)")
                }
            }
        }
    }

    private static func isInBraces(_ section: String, _ text: ConfigurationText) -> Bool {
        lines(text.bytes).contains { $0.starts(with: Array("\(section): {".utf8)) }
    }

    @Test(arguments: files)
    func whatIsRemovedLeavesEveryOtherLine(_ file: String) throws {
        var random = SplitMix(seed: UInt64(file.utf8.count))
        for bytes in try Self.variants(file) {
            guard var text = try? ConfigurationText(bytes) else { continue }
            for section in ["routes", "credentials"] {
                while let name = text.names(in: section)?.randomElement(using: &random) {
                    let before = text
                    guard (try? text.remove(name, from: section)) != nil else {
                        #expect(text.bytes == before.bytes)
                        // Only an anchor, or braces over several lines, are a reason.
                        let whole = String(decoding: bytes, as: UTF8.self)
                        #expect(whole.contains("*") || Self.isInBraces(section, before), "\(file): \(name)")
                        break
                    }
                    #expect(text.names(in: section) == before.names(in: section)?.filter { $0 != name })
                    guard text.names(in: section) != [], !Self.isInBraces(section, before) else { continue }
                    let isKept = Self.isPart(Self.lines(text.bytes), of: Self.lines(before.bytes))
                    #expect(isKept, "\(file): \(name)")
                }
            }
        }
    }
}
