/// Makes what an authority wrote fit for operators: one printable line, bounded, without secrets.
///
/// Authorities repeat what they were sent, and they write tokens into sentences. Three rules apply:
/// - A secret of the request is hidden wherever it stands, also percent-encoded, in base64 or in another case.
/// - A run of 20 or more characters that tokens are made of is hidden, unless it reads like words or is the number of a trace.
/// - What stands behind a name such as `token=` or `password` is hidden if it looks like a secret.
///
/// If a secret could be guessed from the gap that it leaves, nothing of the text is shown.
package struct AuthorityText: Sendable {
    package static let limit = 256
    package static let hidden = "‹hidden›"
    package static let allHidden = "‹hidden: it repeats a secret›"

    /// More is not looked at.
    private static let inputLimit = 4096

    private let secrets: [HiddenSecret]

    package init(hiding secrets: [Secret]) { self.secrets = secrets.compactMap { HiddenSecret($0) } }

    /// - Parameter limit: The number of characters that are shown at most.
    /// - Returns: nil when there is nothing to show.
    package func shown(_ text: String, limit: Int = limit) -> String? {
        let words = Self.words(text)
        guard !words.isEmpty else { return nil }
        guard !revealsGuessable(words.joined(separator: " ")) else { return Self.allHidden }
        let masked = Self.maskingRuns(in: words.map { isRepeated(in: $0) ? Self.hidden : $0 })
        let line = masked.joined(separator: " ")
        // One that has spaces in it, or that only the whole spells.
        guard !isRepeated(in: line) else { return Self.allHidden }
        return line.count > limit ? line.prefix(limit) + "…" : line
    }

    private func isRepeated(in text: String) -> Bool {
        let variants = HiddenSecret.variants(of: text)
        return secrets.contains { $0.isRepeated(in: variants) }
    }

    private func revealsGuessable(_ text: String) -> Bool {
        let variants = HiddenSecret.variants(of: text)
        return secrets.contains { $0.isGuessable && $0.isRepeated(in: variants) }
    }

    /// The text without what is not printable. If it is too long, its last word is dropped: that may be a part of a secret.
    private static func words(_ text: String) -> [String] {
        let scalars = text.unicodeScalars.prefix(inputLimit)
        var words: [String] = [""]
        for scalar in scalars {
            if scalar.properties.isWhitespace || !scalar.isHarmless || scalar == "\u{FFFD}" {
                if words.last != "" { words.append("") }
            } else {
                words[words.count - 1].unicodeScalars.append(scalar)
            }
        }
        if scalars.endIndex < text.unicodeScalars.endIndex { words.removeLast() }
        return words.filter { !$0.isEmpty }
    }
}

/// A secret in the forms in which a text may repeat it.
private struct HiddenSecret: Sendable {
    /// Folded, as ``fold(_:)`` does it.
    private let forms: [SecretBytes]
    /// Short, or a word: its gap in a sentence would tell it.
    let isGuessable: Bool
    /// So short that it stands in many words by chance.
    private let isWholeWord: Bool

    init?(_ secret: Secret) {
        guard !secret.isEmpty else { return nil }
        let bytes = secret.withValue { Array($0.utf8) }
        let encoded = [Base64.encode(bytes), Base64.encodeURL(bytes)].map { Self.fold(Array($0.utf8)) }
        let unpadded = encoded.map { Array($0.reversed().drop { $0 == UInt8(ascii: "=") }.reversed()) }
        forms = ([Self.fold(bytes)] + (bytes.count < 4 ? [] : unpadded)).map { SecretBytes($0) }
        isGuessable = bytes.count < 8 || bytes.allSatisfy(\.isLetter)
        isWholeWord = bytes.count < 4
    }

    func isRepeated(in variants: [[UInt8]]) -> Bool {
        forms.contains { form in
            form.withValue { form in variants.contains { Self.contains(form, in: $0, isWholeWord: isWholeWord) } }
        }
    }

    private static func contains(_ word: [UInt8], in text: [UInt8], isWholeWord: Bool) -> Bool {
        guard word.count <= text.count, let first = word.first else { return false }
        return (0...text.count - word.count).contains { start in
            guard text[start] == first, text[start...].starts(with: word) else { return false }
            guard isWholeWord else { return true }
            let end = start + word.count
            return (start == 0 || !text[start - 1].isWordByte) && (end == text.count || !text[end].isWordByte)
        }
    }

    /// Who encodes a text more often than this hides something, and is not read further.
    private static let maximumDecodings = 8

    /// The text as it is, and with its percent-encoding undone as often as there is one.
    static func variants(of text: String) -> [[UInt8]] {
        var bytes = Array(text.utf8)
        var variants = [fold(bytes)]
        for _ in 0..<maximumDecodings {
            let decoded = PercentEncoding.decodeLeniently(bytes.span, 0..<bytes.count)
            guard decoded.count < bytes.count else { break }
            bytes = decoded
            variants.append(fold(bytes))
        }
        return variants
    }

    /// Lower case, `+` as the space that it can mean in a form, and without the backslashes of a quoted string.
    private static func fold(_ text: [UInt8]) -> [UInt8] {
        text.filter { $0 != UInt8(ascii: "\\") }.map { $0 == UInt8(ascii: "+") ? 0x20 : $0.asciiLowercased }
    }
}

extension UInt8 {
    fileprivate var isLetter: Bool { (0x61...0x7A).contains(asciiLowercased) }
    fileprivate var isWordByte: Bool { isLetter || isDigit || self == UInt8(ascii: "_") || self >= 0x80 }
}
