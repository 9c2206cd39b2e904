import GatewayHTTP

/// What a request addresses, with the identifiers left out: `GET /users/42` and `GET /users/43` have the same template.
///
/// A hash of 64 bits over the method and the path. Words that look like identifiers count as one placeholder: `42`, a UUID,
/// `0199a2f3c4`. A word ends at `/`, `.`, `:`, `(` and the like, so `42.json` and `42:cancel` keep what follows the number.
/// Two paths that are taken for one only share what is remembered of them.
///
/// Computed for every successful request: a few instructions for each byte, and no memory.
package struct PathTemplate: Hashable, Sendable {
    package let hash: UInt64

    /// - Parameters:
    ///   - method: Where the method stands in `bytes`.
    ///   - path: Where the path stands in `bytes`, without the query.
    ///   - seed: Random and the same for the whole process, so that a client cannot compute two paths with one hash.
    package init(_ bytes: borrowing Span<UInt8>, method: Range<Int>, path: Range<Int>, seed: UInt64 = 0) {
        var state = Self.basis ^ seed
        for index in method { state = Self.adding(bytes[index], to: state) }
        state = Self.adding(0, to: state)
        var (index, digits) = (path.lowerBound, 0)
        // Where the word that is being read begins, and the hash of what stands before it.
        var (wordStart, stateBefore) = (index, state)
        while index < path.upperBound {
            let byte = bytes[index]
            if byte >= 0x40 {
                // A letter, mostly: the shortest way.
            } else if byte.isDigit {
                digits &+= 1
            } else if Self.endsWord(byte) {
                if digits > 0, Self.isIdentifier(bytes, wordStart..<index, digits: digits) {
                    state = Self.adding(Self.placeholder, to: stateBefore)
                }
                digits = 0
                wordStart = index &+ 1
                stateBefore = Self.adding(byte, to: state)
            }
            state = Self.adding(byte, to: state)
            index &+= 1
        }
        if digits > 0, Self.isIdentifier(bytes, wordStart..<index, digits: digits) {
            state = Self.adding(Self.placeholder, to: stateBefore)
        }
        hash = Self.mixed(state)
    }

    // MARK: Words

    /// All of ASCII below `@`, except `%`, `+` and `-`. Not to be asked of a digit.
    @inline(__always)
    private static func endsWord(_ byte: UInt8) -> Bool {
        let parts: UInt64 = 1 << 0x25 | 1 << 0x2B | 1 << 0x2D
        return byte < 0x40 && parts &>> UInt64(byte) & 1 == 0
    }

    /// - Parameter digits: How many there are among the bytes of the word; not 0.
    private static func isIdentifier(_ bytes: borrowing Span<UInt8>, _ word: Range<Int>, digits: Int) -> Bool {
        var (letters, isHexadecimal) = (0, true)
        for index in word {
            let byte = bytes[index]
            if byte.isDigit || byte == 0x2D || byte == 0x5F { continue }
            letters += 1
            if !byte.isHexDigit { isHexadecimal = false }
        }
        // A number or a date.
        if letters == 0 { return true }
        // `v2` and `oauth2` are names.
        guard word.count >= 8 else { return false }
        return isHexadecimal || digits * 4 >= word.count || word.count >= 16 && digits >= 2
    }

    // MARK: Hash

    private static let basis: UInt64 = 0xCBF2_9CE4_8422_2325
    /// No byte of a path: a path has no control characters.
    private static let placeholder: UInt8 = 0x01

    /// One step of FNV-1a.
    @inline(__always)
    private static func adding(_ byte: UInt8, to state: UInt64) -> UInt64 {
        (state ^ UInt64(byte)) &* 0x0000_0100_0000_01B3
    }

    /// The last step of MurmurHash3: every bit of the state reaches every bit of the hash.
    private static func mixed(_ state: UInt64) -> UInt64 {
        var hash = state
        hash ^= hash &>> 33
        hash &*= 0xFF51_AFD7_ED55_8CCD
        hash ^= hash &>> 33
        hash &*= 0xC4CE_B9FE_1A85_EC53
        return hash ^ hash &>> 33
    }
}

/// The template as text, for the log.
extension PathTemplate {
    /// A path with the identifiers left out, for a person: `/users/42/files` is `/users/{id}/files`.
    ///
    /// The version of an API (`2.0`) is shown, though the hash takes it for a number like any other.
    ///
    /// Also left out is what may be a secret or personal: long words that look random, values behind `=`, encoded text and e-mail
    /// addresses. What is left is ASCII without control characters.
    ///
    /// - Parameter path: Where the path stands in `bytes`, without the query.
    package static func text(_ bytes: borrowing Span<UInt8>, path: Range<Int>) -> String {
        var text = ""
        var (start, index) = (path.lowerBound, path.lowerBound)
        var versionEnd = versionEnd(bytes, from: start, in: path)
        // What stands behind `=`, up to the next separator that is not encoded.
        var isValue = false
        while true {
            let isEnd = index == path.upperBound
            let isEscape = !isEnd && isEncodedSlash(bytes, at: index, in: path)
            guard isEnd || isEscape || !bytes[index].isDigit && endsWord(bytes[index]) else {
                index &+= 1
                continue
            }
            let word = start..<index
            let isShown = word.isEmpty || !isValue && (index <= versionEnd || !isLeftOut(bytes, word))
            text += isShown ? bytes.string(word) : "{id}"
            if isEnd { break }
            guard text.utf8.count < maximumTextLength else { return text + "…" }
            start = index &+ (isEscape ? 3 : 1)
            text += bytes.string(index..<start)
            if !isEscape { isValue = bytes[index] == 0x3D }
            if bytes[index] == 0x2F { versionEnd = Self.versionEnd(bytes, from: start, in: path) }
            index = start
        }
        return text
    }

    /// `%2F`: it tells what the upstream may take for a separator.
    private static func isEncodedSlash(_ bytes: borrowing Span<UInt8>, at index: Int, in path: Range<Int>) -> Bool {
        index &+ 2 < path.upperBound && bytes[index] == 0x25 && bytes[index &+ 1] == 0x32
            && bytes[index &+ 2] | 0x20 == 0x66
    }

    /// Where the version of an API ends that is a whole segment, such as `2.0` or `v1.2`.
    ///
    /// - Returns: `start` where there is none.
    private static func versionEnd(_ bytes: borrowing Span<UInt8>, from start: Int, in path: Range<Int>) -> Int {
        var index = start
        if index < path.upperBound, bytes[index] | 0x20 == 0x76 { index &+= 1 }
        var (digits, dots) = (0, 0)
        while index < path.upperBound, bytes[index] != 0x2F {
            if bytes[index].isDigit, digits < 2 {
                digits += 1
            } else if bytes[index] == 0x2E, digits > 0, dots < 2 {
                (digits, dots) = (0, dots + 1)
            } else {
                return start
            }
            index &+= 1
        }
        return dots > 0 && digits > 0 ? index : start
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
