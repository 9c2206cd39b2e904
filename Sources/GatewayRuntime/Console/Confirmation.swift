/// Asks a person before a command changes a file of theirs.
package enum Confirmation {
    /// - Parameter isGiven: The command line says yes.
    /// - Throws: ``ExitStatus/usage`` without a terminal to ask on, ``ExitStatus/failed`` after another answer than yes.
    package static func require(_ question: String, isGiven: Bool) throws(CommandFailure) {
        guard !isGiven else { return }
        guard Console.isInputTerminal, Console.isErrorTerminal else {
            throw CommandFailure(.usage, "nothing was changed: there is no terminal to ask on; add --yes")
        }
        Console.writeError("\(question) [y/N] ")
        let answer = (readLine() ?? "").lowercased().filter { !$0.isWhitespace }
        guard answer == "y" || answer == "yes" else { throw CommandFailure(.failed, "nothing was changed") }
    }
}
