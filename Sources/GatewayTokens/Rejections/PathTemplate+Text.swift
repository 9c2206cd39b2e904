import GatewayHTTP

extension PathTemplate {
    /// A path with the identifiers left out, for a person: `/users/42/files` is `/users/{id}/files`.
    ///
    /// Also left out is what may be a secret or personal: long words that look random, values behind `=`, encoded text and e-mail
    /// addresses. What is left is ASCII without control characters.
    ///
    /// - Parameter path: Where the path stands in `bytes`, without the query.
    package static func text(_ bytes: borrowing Span<UInt8>, path: Range<Int>) -> String {
        var text = ""
        var start = path.lowerBound
        for index in path.lowerBound...path.upperBound {
            let isEnd = index == path.upperBound
            guard isEnd || !bytes[index].isDigit && endsWord(bytes[index]) else { continue }
            let isValue = start > path.lowerBound && bytes[start &- 1] == 0x3D
            let word = start..<index
            text += !word.isEmpty && (isValue || isLeftOut(bytes, word)) ? "{id}" : bytes.string(word)
            start = index &+ 1
            if isEnd { break }
            guard text.utf8.count < maximumTextLength else { return text + "…" }
            text.unicodeScalars.append(Unicode.Scalar(bytes[index]))
        }
        return text
    }

    /// A word that is shown has at most 32 bytes more.
    static let maximumTextLength = 200
    static let maximumWordLength = 32

    private static func isLeftOut(_ bytes: borrowing Span<UInt8>, _ word: Range<Int>) -> Bool {
        guard word.count <= maximumWordLength else { return true }
        var (digits, humps, isCapital) = (0, 0, true)
        var (consonants, longestRun) = (0, 0)
        for index in word {
            let byte = bytes[index]
            // Encoded text, an e-mail address, or what no path has.
            if byte == 0x25 || byte == 0x40 || byte >= 0x7F || byte <= 0x20 { return true }
            if byte.isDigit { digits += 1 }
            let wasCapital = isCapital
            isCapital = byte &- 0x41 < 26
            if isCapital, !wasCapital { humps += 1 }
            consonants = isConsonant(byte) ? consonants + 1 : 0
            longestRun = max(longestRun, consonants)
        }
        if digits > 0, isIdentifier(bytes, word, digits: digits) { return true }
        // Random letters change their case far more often than names do, and names have vowels.
        if word.count >= 12, humps * 4 >= word.count || longestRun >= 6 { return true }
        return word.count >= 20 && (digits > 0 || humps * 5 >= word.count)
    }

    private static func isConsonant(_ byte: UInt8) -> Bool {
        (0x61...0x7A).contains(byte | 0x20) && !"aeiouy".utf8.contains(byte | 0x20)
    }
}
