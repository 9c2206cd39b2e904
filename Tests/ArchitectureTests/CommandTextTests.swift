import Foundation
import Testing

/// People copy the commands that this program names into a shell. Names of tokens hold what requests and registries send.
@Suite("Commands in texts", .timeLimit(.minutes(5)))
struct CommandTextTests {
    /// `authgateway token clear \(name)`, and `"authgateway token clear " + name`.
    private static let unquoted = ##"authgateway( -*[a-z][a-zA-Z-]*)+[ ='"\[]*(\\#*\(|"\s*\+\s*[a-z])"##

    @Test func noCommandHoldsATextThatWasNotQuoted() throws {
        let expression = try NSRegularExpression(pattern: Self.unquoted)
        let sources = SourceTree.root.appendingPathComponent("Sources")
        let paths = try FileManager.default.subpathsOfDirectory(atPath: sources.path)
        var (files, places) = (0, [String]())
        for path in paths where path.hasSuffix(".swift") {
            files += 1
            let text = try String(contentsOf: sources.appendingPathComponent(path), encoding: .utf8)
            for found in expression.matches(in: text, range: NSRange(text.startIndex..., in: text)) {
                let match = Range(found.range, in: text).map { String(text[$0]) } ?? ""
                places.append("\(path): \(match)")
            }
        }
        #expect(files > 0)
        #expect(places == [], "make the command with GatewayCommand.line, which quotes names")
    }

    @Test(arguments: [
        (#""authgateway token clear \(name)""#, true), (#""authgateway token clear '\(name)'""#, true),
        (##"#"authgateway login \#(name)"#"##, true), (#""authgateway run\(option)""#, true),
        (#""authgateway token clear " + name"#, true), (#""authgateway login --manual \(name)""#, true),
        (#""authgateway status shows \(count)""#, true), (#""authgateway status", name: "\(state)""#, false),
        (#""authgateway token clear NAME""#, false), (#""authgateway \(version)""#, false),
    ])
    func theTestSees(_ code: String, _ isFound: Bool) {
        #expect((code.range(of: Self.unquoted, options: .regularExpression) != nil) == isFound)
    }
}
