import ArgumentParser
import GatewayRuntime

/// One token or all of them, for the commands that need no more than that.
struct TokenSelection: ParsableArguments {
    @Argument(help: "The credential, as `token list` names it.")
    var name: String?

    @Flag(name: .customLong("all"), help: "Every credential that has a token; asks nothing.")
    var isAll = false

    @OptionGroup var gateway: RunningGatewayOptions

    func validate() throws {
        if name != nil, isAll { throw ValidationError("A name and --all exclude each other: which one is meant?") }
        if name == nil, !isAll { throw ValidationError("Name a credential, or say --all.") }
    }

    /// - Parameter locks: Lock first.
    func perform(_ verb: TokenCommands.Verb, locking locks: Bool = false) async throws {
        let commands = try gateway.tokenCommands()
        if let name {
            Console.write(locks ? try await commands.destroy(name) : try await commands.perform(verb, on: name))
            return
        }
        let (output, failed) = try await commands.performOnAll(verb, locking: locks)
        Console.write(output)
        try CommandFailure.require(noneOf: failed)
    }
}
