import GatewayCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// What the system says for ``HangUpRule``.
enum HangUp {
    /// To be asked before the signal is trapped.
    static func rule() -> HangUpRule {
        HangUpRule(wasIgnored: isIgnored, hadTerminal: isatty(STDIN_FILENO) == 1)
    }

    /// A terminal that was closed answers every control call with EIO.
    static var terminalIsGone: Bool {
        var settings = termios()
        return unsafe tcgetattr(STDIN_FILENO, &settings) != 0 && errno == EIO
    }

    private static var isIgnored: Bool {
        var action = sigaction()
        guard unsafe sigaction(SIGHUP, nil, &action) == 0 else { return false }
        #if canImport(Darwin)
            let handler = unsafe action.__sigaction_u.__sa_handler
        #else
            let handler = unsafe action.__sigaction_handler.sa_handler
        #endif
        return unsafe unsafeBitCast(handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
    }
}
