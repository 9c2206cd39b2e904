/// Writes the labels of an internationalized host name as DNS has them (RFC 3492, RFC 5890 section 2.3.2.1).
///
/// For advice only: which characters a name may have, and which of them are the same, is for its registry to say.
package enum Punycode {
    private static let (base, tMin, tMax, skew, damp): (Int, Int, Int, Int, Int) = (36, 1, 26, 38, 700)

    /// - Returns: nil where the name is ASCII, or has a label that is longer than DNS takes.
    package static func hostName(_ name: String) -> String? {
        guard !name.utf8.allSatisfy({ $0 < 0x80 }), name.utf8.count <= 255 else { return nil }
        let labels = composed(name.lowercased()).split(separator: ".", omittingEmptySubsequences: false)
            .map { label in label.utf8.allSatisfy { $0 < 0x80 } ? String(label) : "xn--" + encoded(label) }
        return labels.allSatisfy { $0.utf8.count <= 63 } ? labels.joined(separator: ".") : nil
    }

    /// One scalar for a letter with its accent, as names in DNS have it (RFC 5891 section 4.1). Some editors and file systems write two.
    private static func composed(_ name: String) -> String {
        String(
            name.map { character in
                guard character.unicodeScalars.count > 1 else { return character }
                let letters = precomposed.lazy.joined().compactMap { Unicode.Scalar($0).map { Character($0) } }
                return letters.first { $0 == character } ?? character
            }
        )
    }

    /// Latin, Greek and Cyrillic letters.
    private static let precomposed: [ClosedRange<UInt32>] = [0xC0...0x4FF, 0x1E00...0x1FFF]

    private static func encoded(_ label: Substring) -> String {
        let points = label.unicodeScalars.map { Int($0.value) }
        var output = points.filter { $0 < 0x80 }.map { UInt8($0) }
        let basic = output.count
        if basic > 0 { output.append(UInt8(ascii: "-")) }
        var (next, delta, bias, handled) = (0x80, 0, 72, basic)
        while handled < points.count, let point = points.filter({ $0 >= next }).min() {
            delta += (point - next) * (handled + 1)
            next = point
            for other in points {
                if other < next { delta += 1 }
                guard other == next else { continue }
                append(delta, bias, to: &output)
                bias = adapted(delta, isFirst: handled == basic, handled: handled + 1)
                delta = 0
                handled += 1
            }
            delta += 1
            next += 1
        }
        return String(decoding: output, as: UTF8.self)
    }

    private static func append(_ delta: Int, _ bias: Int, to output: inout [UInt8]) {
        var (rest, k) = (delta, base)
        while true {
            let threshold = min(max(k - bias, tMin), tMax)
            guard rest >= threshold else { break }
            output.append(digit(threshold + (rest - threshold) % (base - threshold)))
            rest = (rest - threshold) / (base - threshold)
            k += base
        }
        output.append(digit(rest))
    }

    private static func adapted(_ delta: Int, isFirst: Bool, handled: Int) -> Int {
        var rest = isFirst ? delta / damp : delta / 2
        rest += rest / handled
        var k = 0
        while rest > (base - tMin) * tMax / 2 {
            rest /= base - tMin
            k += base
        }
        return k + (base - tMin + 1) * rest / (rest + skew)
    }

    private static func digit(_ value: Int) -> UInt8 { UInt8(value < 26 ? 0x61 + value : 0x30 + value - 26) }
}
