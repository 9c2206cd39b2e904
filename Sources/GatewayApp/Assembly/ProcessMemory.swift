import GatewayHTTP

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
        for range in readOnlyRanges(in: bytes(of: "/proc/self/maps")) {
            guard let start = unsafe UnsafeMutableRawPointer(bitPattern: range.lowerBound) else { continue }
            // Without effect where the kernel does not know it, which is no harm.
            _ = unsafe madvise(start, range.count, MADV_DONTNEED)
        }
    }

    /// Where files are mapped for execution, and what is mapped of them first, when that is read-only: no page of these can have
    /// changed. What the loader has written to and made read-only afterwards comes later in its file.
    ///
    /// Runs every 30 seconds, so it reads bytes: strings would cost 50 times as much.
    ///
    /// - Parameter maps: Lines such as `7f00-7f10 r-xp 00002000 fd:01 1234   /usr/lib/libc.so.6` (proc_pid_maps(5)).
    static func readOnlyRanges(in maps: [UInt8]) -> [Range<Int>] {
        let (lineEnd, blank) = (UInt8(ascii: "\n"), UInt8(ascii: " "))
        var position = 0
        func next() -> UInt8 { position < maps.count ? maps[position] : lineEnd }
        /// Reads digits, and what follows them.
        func number() -> Int {
            var number = 0
            while let digit = next().hexValue {
                number = number << 4 | Int(digit)
                position += 1
            }
            if next() != lineEnd { position += 1 }
            return number
        }
        var ranges: [Range<Int>] = []
        var files: Set<Int> = []
        while position < maps.count {
            let (start, end) = (number(), number())
            let rights = maps[position...].prefix { $0 != blank }
            position += min(rights.count + 1, maps.count - position)
            // The offset, and the two numbers of the device.
            for _ in 0..<3 { _ = number() }
            let file = number()
            while next() == blank { position += 1 }
            if next() == UInt8(ascii: "/") {
                // Files of two devices may have the same number. Less is given back then.
                let isFirst = files.insert(file).inserted
                let isUnchanged = rights.elementsEqual("r-xp".utf8) || isFirst && rights.elementsEqual("r--p".utf8)
                if isUnchanged, start < end { ranges.append(start..<end) }
            }
            while next() != lineEnd { position += 1 }
            position += 1
        }
        return ranges
    }

    /// Empty if the file cannot be read.
    private static func bytes(of path: String) -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { _ = close(descriptor) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 16_384)
        while bytes.count < 1 << 20 {
            let count = unsafe part.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else { break }
            bytes += part.prefix(count)
        }
        return bytes
    }
}
