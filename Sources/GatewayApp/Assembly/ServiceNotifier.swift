import Foundation
import GatewayHTTP

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Tells the service manager how the gateway is.
package struct ServiceNotifier: Sendable {
    let manager: ServiceManager

    /// nil when no service manager asks for it.
    package init?() {
        guard let manager = ServiceManager(environment: ProcessInfo.processInfo.environment, process: getpid()) else {
            return nil
        }
        self.manager = manager
    }

    init(_ manager: ServiceManager) { self.manager = manager }

    /// A service manager that is gone or that does not read for a second is not told.
    func send(_ state: ServiceManager.State) {
        #if canImport(Darwin)
            let descriptor = socket(AF_UNIX, SOCK_DGRAM, 0)
        #else
            let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        #endif
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        guard connects(descriptor) else { return }
        var waited = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        guard unsafe poll(&waited, 1, 1000) == 1 else { return }
        let text = Array(state.rawValue.utf8)
        _ = unsafe write(descriptor, text, text.count)
    }

    private func connects(_ descriptor: Int32) -> Bool {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: manager.socket) }
        // Of an abstract name the length tells where it ends.
        let offset = MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 2
        let length = socklen_t(offset + manager.socket.count + (manager.socket.first == 0 ? 0 : 1))
        return unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe connect(descriptor, $0, length) == 0
            }
        }
    }
}

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
