extension RouteTable {
    /// Routes by their first path segment, longest prefix first; those for `/` apart.
    ///
    /// What a thousand routes have lies side by side: a request looks at places that others have kept in the cache.
    struct PathIndex: Sendable {
        private struct Entry: Sendable {
            /// Of the first segment.
            let hash: UInt64
            let route: Int32
            /// Within ``prefixes``.
            let prefix: Range<Int32>
        }

        /// Where in ``entries`` those of a segment begin, at the place that its hash names or, where that is taken, soon
        /// after; -1 is free. A power of two of places, at most half of them taken.
        private var places: [Int32] = []
        /// Those of one segment side by side, the longest prefix first.
        private var entries: [Entry] = []
        private var prefixes: [UInt8] = []
        private var root: Int?

        init() {}

        /// - Parameter routes: With their prefixes, empty for the root. Of two with the same prefix the first counts.
        init(_ routes: [(route: Int, prefix: [UInt8])]) {
            root = routes.first { $0.prefix.isEmpty }?.route
            let named = routes.filter { !$0.prefix.isEmpty }
            guard !named.isEmpty else { return }
            places = [Int32](repeating: -1, count: 2 << (Int.bitWidth - named.count.leadingZeroBitCount))
            let groups = Dictionary(grouping: named) { _, prefix in
                RouteTable.hash(prefix.span, RouteTable.firstSegment(prefix.span, 0..<prefix.count))
            }
            for (hash, group) in groups {
                places[place(of: hash)] = Int32(entries.count)
                let ordered = group.sorted { ($1.prefix.count, $0.route) < ($0.prefix.count, $1.route) }
                for (route, prefix) in ordered {
                    let start = Int32(prefixes.count)
                    prefixes += prefix
                    entries.append(Entry(hash: hash, route: Int32(route), prefix: start..<Int32(prefixes.count)))
                }
            }
        }

        /// Where the entries of a segment are found, or would be.
        private func place(of hash: UInt64) -> Int {
            let last = places.count &- 1
            var place = Int(truncatingIfNeeded: hash) & last
            while places[place] >= 0, entries[Int(places[place])].hash != hash { place = (place &+ 1) & last }
            return place
        }

        func find(_ bytes: borrowing Span<UInt8>, _ path: Range<Int>) -> Int? {
            guard !places.isEmpty else { return root }
            let hash = RouteTable.hash(bytes, RouteTable.firstSegment(bytes, path))
            let first = places[place(of: hash)]
            guard first >= 0 else { return root }
            for index in Int(first)..<entries.count {
                let entry = entries[index]
                guard entry.hash == hash else { break }
                let prefix = Int(entry.prefix.lowerBound)..<Int(entry.prefix.upperBound)
                if RouteTable.hasPrefix(bytes, path, prefixes, prefix) { return Int(entry.route) }
            }
            return root
        }
    }

    /// On segment borders only: `/box` is a prefix of `/box` and `/box/a`, not of `/boxer`.
    ///
    /// - Parameter prefix: Within `prefixes`.
    static func hasPrefix(
        _ bytes: borrowing Span<UInt8>,
        _ path: Range<Int>,
        _ prefixes: [UInt8],
        _ prefix: Range<Int>
    ) -> Bool {
        guard path.count >= prefix.count else { return false }
        for offset in 0..<prefix.count
        where bytes[path.lowerBound &+ offset] != prefixes[prefix.lowerBound &+ offset] { return false }
        return path.count == prefix.count || bytes[path.lowerBound &+ prefix.count] == 0x2F
    }

    static func firstSegment(_ bytes: borrowing Span<UInt8>, _ path: Range<Int>) -> Range<Int> {
        var end = path.lowerBound &+ 1
        while end < path.upperBound, bytes[end] != 0x2F { end &+= 1 }
        return min(path.lowerBound &+ 1, path.upperBound)..<max(end, min(path.lowerBound &+ 1, path.upperBound))
    }

    /// FNV-1a over the bytes in lower case; equal keys are compared byte by byte afterwards.
    static func hash(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for index in range {
            hash = (hash ^ UInt64(bytes[index].asciiLowercased)) &* 0x0000_0100_0000_01B3
        }
        return hash
    }
}
