/// What SIGHUP means to a gateway: its terminal was closed, or somebody asks for a reload.
package struct HangUpRule: Hashable, Sendable {
    package enum Action: Hashable, Sendable {
        case reload
        case stop
    }

    private let wasIgnored: Bool
    private let hadTerminal: Bool

    /// - Parameters:
    ///   - wasIgnored: The process was started with the signal ignored, as `nohup` does it.
    ///   - hadTerminal: Standard input was a terminal when the process started.
    package init(wasIgnored: Bool, hadTerminal: Bool) {
        self.wasIgnored = wasIgnored
        self.hadTerminal = hadTerminal
    }

    /// An inherited ignore stays: the process is meant to outlive the terminal.
    package var isHandled: Bool { !wasIgnored }

    /// - Parameter terminalIsGone: Standard input answers with EIO, as a terminal does once it was closed. The terminal of a
    ///   signal that a person sent still answers.
    package func action(terminalIsGone: Bool) -> Action { hadTerminal && terminalIsGone ? .stop : .reload }
}
