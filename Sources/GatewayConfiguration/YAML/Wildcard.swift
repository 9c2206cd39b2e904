/// File name patterns: `*` stands for any characters, `?` for one.
package enum Wildcard {
    /// Takes time in proportion to the product of both lengths at most.
    package static func matches(_ name: [UInt8], _ pattern: [UInt8]) -> Bool {
        var (at, mark) = (0, 0)
        var star: Int?
        var index = 0
        while index < name.count {
            if at < pattern.count, pattern[at] == UInt8(ascii: "*") {
                star = at
                mark = index
                at += 1
            } else if at < pattern.count, pattern[at] == UInt8(ascii: "?") || pattern[at] == name[index] {
                at += 1
                index += 1
            } else if let star {
                at = star + 1
                mark += 1
                index = mark
            } else {
                return false
            }
        }
        return pattern[at...].allSatisfy { $0 == UInt8(ascii: "*") }
    }
}
