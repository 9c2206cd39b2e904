import Foundation

/// The browser of the person at this machine.
enum Browser {
    /// Opens `address` where there is a screen to open it on; that it cannot be opened is no failure: it is printed too.
    static func open(_ address: String) {
        #if canImport(Darwin)
            let opener = "open"
        #else
            let opener = "xdg-open"
            guard Console.environment("DISPLAY") ?? Console.environment("WAYLAND_DISPLAY") != nil else { return }
        #endif
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [opener, address]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try? process.run()
    }
}
