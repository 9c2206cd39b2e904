/// What the gateway's programs see of its environment, which may hold secrets.
package enum ProgramEnvironment {
    /// What programs commonly need.
    package static let inherited: Set = [
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR",
        "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS",
    ]

    package static func inherited(from variables: [String: String]) -> [String: String] {
        variables.filter { inherited.contains($0.key) }
    }
}
