/// Which folders of one target use which others, as far as names tell.
///
/// A name counts when one folder alone declares it: a type, or a member of an extension of a type from elsewhere. A use that names
/// neither, such as a property of a property, is not seen.
struct FolderUses {
    private(set) var folders: Set<String> = []
    /// By the folder that uses and the one that is used: a name and a place.
    private(set) var examples: [String: [String: String]] = [:]

    private var types: [String: Set<String>] = [:]
    private var members: [String: Set<String>] = [:]
    /// Of extensions, with what is extended.
    private var extensionMembers: [String: Set<String>] = [:]

    init(_ files: [SourceTree.File]) {
        let read = files.map(Reading.init)
        folders = Set(read.map(\.folder))
        for file in read {
            for name in file.types { types[name, default: []].insert(file.folder) }
            for name in file.members { members[name, default: []].insert(file.folder) }
        }
        for file in read {
            for (name, type) in file.extensionMembers where types[type]?.contains(file.folder) != true {
                extensionMembers[name, default: []].insert(file.folder)
            }
        }
        for file in read {
            for word in file.words { note(word, in: file) }
        }
    }

    private mutating func note(_ word: Reading.Word, in file: Reading) {
        let declaring: Set<String>?
        if word.text.first?.isUppercase == true {
            declaring = word.isMember || file.nestedTypes.contains(word.text) ? nil : types[word.text]
        } else {
            declaring = word.isMember && extensionMembers[word.text] != nil ? members[word.text] : nil
        }
        guard let used = declaring?.first, declaring?.count == 1, used != file.folder else { return }
        if examples[file.folder]?[used] == nil {
            examples[file.folder, default: [:]][used] = "\(word.text) in \(file.path):\(word.line)"
        }
    }
}

/// What one file declares and names.
private struct Reading {
    struct Word {
        let text: String
        let line: Int
        /// Behind a period.
        let isMember: Bool
    }

    let path: String
    let folder: String
    private(set) var words: [Word] = []
    private(set) var types: Set<String> = []
    private(set) var nestedTypes: Set<String> = []
    private(set) var members: Set<String> = []
    private(set) var extensionMembers: [(name: String, type: String)] = []

    init(_ file: SourceTree.File) {
        path = file.path
        let parts = file.path.split(separator: "/")
        folder = parts.count > 2 ? String(parts[1]) : "."
        var extended: String?
        for line in file.lines {
            let indentation = line.code.prefix { $0 == " " }.count
            let words = Self.words(of: line)
            self.words += words
            let texts = words.map(\.text)
            if indentation == 0, !texts.isEmpty { extended = nil }
            guard let position = texts.firstIndex(where: Self.keywords.contains), position + 1 < texts.count else {
                continue
            }
            let name = texts[position + 1]
            switch texts[position] {
            case "extension": if indentation == 0, !Self.isPrivate(texts[..<position]) { extended = name }
            case "func", "var", "let", "case":
                members.insert(name)
                if let extended, indentation == 4, !Self.isPrivate(texts[..<position]) {
                    extensionMembers.append((name, extended))
                }
            default: if indentation == 0 { types.insert(name) } else { nestedTypes.insert(name) }
            }
        }
    }

    /// The first of them on a line says what the line declares. A `static` or a modifier may stand before it.
    private static let keywords: Set = [
        "actor", "case", "class", "enum", "extension", "func", "let", "protocol", "struct", "typealias", "var",
    ]

    /// `private(set)` is none of it.
    private static func isPrivate(_ modifiers: ArraySlice<String>) -> Bool {
        modifiers.indices.contains { index in
            let isSetter = index + 1 < modifiers.endIndex && modifiers[index + 1] == "set"
            return ["private", "fileprivate"].contains(modifiers[index]) && !isSetter
        }
    }

    private static func words(of line: SourceTree.Line) -> [Word] {
        var (words, word, previous, before) = ([Word](), [UInt8](), UInt8(ascii: " "), UInt8(ascii: " "))
        for byte in Array(line.code.utf8) + [UInt8(ascii: " ")] {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x5F, 0x61...0x7A:
                if word.isEmpty { before = previous }
                word.append(byte)
            default:
                if !word.isEmpty {
                    let text = String(decoding: word, as: UTF8.self)
                    words.append(Word(text: text, line: line.number, isMember: before == UInt8(ascii: ".")))
                }
                word = []
            }
            previous = byte
        }
        return words
    }
}
