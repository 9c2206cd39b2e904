/// Commands of this program that people copy into a shell.
package enum GatewayCommand {
    /// `authgateway token clear box`. Each word is quoted where a shell would read something into it: names of tokens hold what
    /// requests and registries send.
    package static func line(_ words: String...) -> String { line(words) }

    package static func line(_ words: [String]) -> String {
        (["authgateway"] + words).map(ShellWord.quoted).joined(separator: " ")
    }
}
