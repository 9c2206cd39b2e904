import GatewayCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The zone of this machine (`TZ`, `/etc/localtime`), as the C library has it: Foundation's zones need data that the program
/// does not carry (docs/adr/0069).
enum LocalTime {
    /// Seconds east of UTC at that moment; 0 where the system cannot tell.
    static func offset(at moment: UnixTime) -> Int {
        var seconds = time_t(moment.milliseconds / 1000)
        var fields = unsafe tm()
        guard unsafe localtime_r(&seconds, &fields) != nil else { return 0 }
        return unsafe fields.tm_gmtoff
    }
}
