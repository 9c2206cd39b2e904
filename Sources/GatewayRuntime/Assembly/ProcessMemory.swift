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

/// The pages of the program and its libraries that are resident and not in use.
///
/// At start, and at the first cast of each kind, the Swift runtime reads the records of all types and conformances.
/// About 25 MB of the file then count as resident, and requests need a third of them. Pages that are given back stay
/// in the system's file cache. Mapping one again takes well under a millisecond.
enum ProgramPages {
    static func giveBack() {
        for range in readOnlyRanges() {
            guard let start = unsafe UnsafeMutableRawPointer(bitPattern: range.lowerBound) else { continue }
            // Without effect where the kernel does not know it, which is no harm.
            _ = unsafe madvise(start, range.count, MADV_DONTNEED)
        }
    }

    /// Where files are mapped for execution, and what is mapped of them first, when that is read-only: no page of these can have
    /// changed. What the loader has written to and made read-only afterwards comes later in its file.
    private static func readOnlyRanges() -> [Range<Int>] {
        guard let maps = text(of: "/proc/self/maps") else { return [] }
        var seen: Set<Substring> = []
        return maps.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ", omittingEmptySubsequences: true)
            guard words.count > 5, words[5].hasPrefix("/") else { return nil }
            let isFirst = seen.insert(words[5]).inserted
            guard words[1] == "r-xp" || isFirst && words[1] == "r--p" else { return nil }
            let bounds = words[0].split(separator: "-").compactMap { Int($0, radix: 16) }
            return bounds.count == 2 && bounds[0] < bounds[1] ? bounds[0]..<bounds[1] : nil
        }
    }

    private static func text(of path: String) -> String? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { _ = close(descriptor) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 16_384)
        while bytes.count < 1 << 20 {
            let count = unsafe part.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else { break }
            bytes += part.prefix(count)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
