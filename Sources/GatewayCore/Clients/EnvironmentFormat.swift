/// How `authgateway env` writes variables.
package enum EnvironmentFormat: String, CaseIterable, Sendable {
    /// Lines for `eval` of a POSIX shell.
    case sh
    /// A `.env` file.
    case dotenv
    /// A file for `docker run --env-file`, which has no quotation marks.
    case docker
    /// One object.
    case json

    /// - Returns: nil for a value that the format cannot hold: docker's has no line breaks.
    package func text(_ variables: [ClientEnvironment.Variable]) -> String? {
        switch self {
        case .sh:
            return variables.map { "export \($0.name)=\(ShellWord.quoted($0.value))\n" }.joined()
        case .dotenv:
            return variables.map { "\($0.name)=\(Self.dotenv($0.value))\n" }.joined()
        case .docker:
            guard !variables.contains(where: { $0.value.unicodeScalars.contains { $0.value < 0x20 } }) else {
                return nil
            }
            return variables.map { "\($0.name)=\($0.value)\n" }.joined()
        case .json:
            let members = variables.map { "  \(JSONString.quoted($0.name)): \(JSONString.quoted($0.value))" }
            return "{\n" + members.joined(separator: ",\n") + "\n}\n"
        }
    }

    /// Readers of such files replace nothing within single quotation marks.
    private static func dotenv(_ value: String) -> String {
        guard value.contains("'") || value.contains("\n") else { return "'\(value)'" }
        var quoted = "\""
        for character in value {
            switch character {
            case "\\", "\"", "$", "`": quoted += "\\\(character)"
            case "\n": quoted += "\\n"
            default: quoted.append(character)
            }
        }
        return quoted + "\""
    }
}
