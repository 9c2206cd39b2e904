import GatewayCore

/// What wrong usage is answered with, beside what is wrong.
package enum UsageAdvice {
    /// - Parameters:
    ///   - arguments: Those of the process, without its name.
    ///   - paths: Of all commands, the words behind the name of the program.
    /// - Returns: Lines for standard error; empty when no other command is near.
    package static func text(for arguments: [String], paths: [[String]]) -> String {
        let meant = CommandSuggestion.suggestion(for: arguments, of: "authgateway", among: paths)
        return meant.map { "Did you mean this?\n  \($0)\n" } ?? ""
    }
}
