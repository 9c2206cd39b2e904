import Foundation
import Testing

/// The head decoder beside llhttp, over generated heads: where the two differ, ours is the stricter.
///
/// `AUTHGATEWAY_HEADS` sets how many (20,000 unless told), `AUTHGATEWAY_SEED` which ones (see `SplitMix`).
@Suite(.timeLimit(.minutes(60)))
struct RequestHeadDifferenceTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let count = environment["AUTHGATEWAY_HEADS"].flatMap { Int($0) } ?? 20_000

    /// Methods that llhttp knows; RFC 9110 §9.1 lets there be others, and we pass those on.
    private static let knownMethods: Set<String> = ["GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH"]

    @Test func whereTheTwoDifferOursIsTheStricter() throws {
        var generator = HeadGenerator(seed: 20_261_121)
        var stricter: [String: Int] = [:]
        var agreed = 0
        for _ in 0..<Self.count {
            let head = generator.next()
            let (ours, end) = OurReading.of(head)
            let theirs = TheirReading.of(Array(head[..<end]))
            let text = String(decoding: head, as: UTF8.self).debugDescription
            switch (ours, theirs) {
            case (.read(let mine), .read(let other)):
                #expect(mine == other, "read in two ways: \(text)")
                agreed += 1
            case (.read(let mine), _):
                #expect(isReadWithKnownMethod(head[..<end], mine), "only we read \(text); llhttp: \(theirs)")
            case (.refused(let reason), .read), (.refused(let reason), .needMore):
                stricter[reason, default: 0] += 1
            case (.needMore, .read):
                Issue.record("llhttp sees an end where we wait: \(text)")
            case (.needMore, .refused):
                let whole = head + Array("\r\n\r\n".utf8)
                guard case (.read(let mine), let end) = OurReading.of(whole) else { continue }
                #expect(isReadWithKnownMethod(whole[..<end], mine), "llhttp has refused what we wait on with: \(text)")
            case (.refused, .refused), (.needMore, .needMore):
                break
            }
        }
        #expect(agreed > Self.count / 10, "the corpus has to have heads that are right")
        let document = try Self.document()
        for (reason, number) in stricter.sorted(by: { $0.key < $1.key }) {
            print("stricter: \(reason): \(number)")
            #expect(document.contains("| \(reason) |"), "docs/internals/http-strictness.md does not list it")
        }
    }

    /// llhttp reads the same when a method that it does not know is one that it knows.
    private func isReadWithKnownMethod(_ head: ArraySlice<UInt8>, _ reading: Reading) -> Bool {
        guard !Self.knownMethods.contains(reading.method) else { return false }
        var known = reading
        known.method = "GET"
        let blankLine = head.prefix { $0 == 0x0D || $0 == 0x0A }
        let rest = head.dropFirst(blankLine.count + reading.method.utf8.count)
        return TheirReading.of(blankLine + Array("GET".utf8) + rest) == .read(known)
    }

    private static func document() throws -> String {
        let root = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        return try String(contentsOf: root.appendingPathComponent("docs/internals/http-strictness.md"), encoding: .utf8)
    }
}
