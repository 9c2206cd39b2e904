import Foundation
import Testing

@testable import GatewayFiles

@Suite("Places on a path", .timeLimit(.minutes(5)))
struct PathPlaceTests {
    let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
        for folder in ["a", "a/b", "c"] {
            try FileManager.default.createDirectory(
                atPath: directory.file(folder),
                withIntermediateDirectories: false,
                attributes: [.posixPermissions: 0o750]
            )
        }
        try directory.write("x", to: "a/b/file", mode: 0o640)
    }

    /// What is below the directory of this test.
    private func places(on name: String) -> [String] {
        PathPlace.all(on: directory.file(name)).compactMap { place in
            guard let range = place.path.range(of: directory.path + "/") else { return nil }
            return "\(place.path[range.upperBound...]) \(String(place.mode, radix: 8))"
        }
    }

    @Test func theFileAndEveryFolderAboveItAreNamed() {
        #expect(places(on: "a/./b//file") == ["a 750", "a/b 750", "a/b/file 640"])
        #expect(places(on: "a/b/../b/file") == ["a 750", "a/b 750", "a/b/file 640"])
        let all = PathPlace.all(on: directory.file("a/b/file"))
        #expect(all.first?.path == "/")
        #expect(all.map(\.isFolder) == all.dropLast().map { _ in true } + [false])
    }

    @Test func theFoldersThatLinksLeadThroughAreNamed() throws {
        let files = FileManager.default
        try files.createSymbolicLink(atPath: directory.file("c/relative"), withDestinationPath: "../a/b/file")
        try files.createSymbolicLink(atPath: directory.file("absolute"), withDestinationPath: directory.file("c"))
        #expect(places(on: "absolute/relative") == ["c 750", "a 750", "a/b 750", "a/b/file 640"])
    }

    @Test func whatIsMissingAndLinksWithoutEndEndTheList() throws {
        #expect(places(on: "a/none/file") == ["a 750"])
        try FileManager.default.createSymbolicLink(atPath: directory.file("c/loop"), withDestinationPath: "loop")
        #expect(places(on: "c/loop") == ["c 750"])
    }

    @Test func theNumberOfSymbolicLinksIsLimited() throws {
        var last = "a"
        for number in 1...(PathPlace.maximumLinks + 1) {
            let link = "link-\(number)"
            try FileManager.default.createSymbolicLink(atPath: directory.file(link), withDestinationPath: last)
            last = link
        }
        #expect(places(on: "link-\(PathPlace.maximumLinks)/b") == ["a 750", "a/b 750"])
        #expect(places(on: "link-\(PathPlace.maximumLinks + 1)/b") == [])
    }
}
