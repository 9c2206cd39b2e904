#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The memory of this process, which holds tokens and keys.
package enum ProcessMemory {
    /// No core dump is written, and no process of the same user may attach to this one or read its memory. Root may.
    package static func hide() {
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        #if canImport(Darwin)
            _ = unsafe setrlimit(RLIMIT_CORE, &none)
        #else
            _ = unsafe setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
            if let control { _ = control(setDumpable, 0, 0, 0, 0) }
        #endif
    }

    #if !canImport(Darwin)
        /// PR_SET_DUMPABLE.
        private static let setDumpable: Int32 = 4

        private typealias Control = @convention(c) (Int32, UInt, UInt, UInt, UInt) -> Int32

        /// prctl(2), which takes a variable number of arguments and so is not shown to Swift.
        private static let control: Control? = unsafe dlsym(nil, "prctl").map {
            unsafe unsafeBitCast($0, to: Control.self)
        }
    #endif
}
