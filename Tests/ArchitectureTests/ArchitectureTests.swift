import Testing

@Suite("Architecture", .timeLimit(.minutes(5)))
struct ArchitectureTests {
    /// Read once: it takes seconds.
    private static let sources = Result { try SourceTree.load() }
    let tree: SourceTree

    init() throws { tree = try Self.sources.get() }

    @Test func everyTargetOfTheSourcesHasARowInTheTable() {
        #expect(Set(tree.files.map(\.target)) == Set(ImportTable.order))
        #expect(Set(ImportTable.others.keys) == Set(ImportTable.order))
    }

    @Test(arguments: ImportTable.order)
    func aTargetImportsOnlyWhatItsRowAllows(_ target: String) throws {
        var foreign: [String] = []
        for file in tree.files where file.target == target {
            for line in file.lines {
                guard let module = importedModule(line.code), !ImportTable.allows(module, in: target) else { continue }
                foreign.append("\(file.path):\(line.number) imports \(module)")
            }
        }
        #expect(foreign == [])
    }

    @Test func aPureFileImportsNothingThatActs() {
        var foreign: [String] = []
        for file in tree.files
        where ImpureFiles.covers(file.path) && !ImpureFiles.acts(file.path) && !ImpureFiles.counts(file.path) {
            for line in file.lines {
                guard let module = importedModule(line.code), !module.hasPrefix("Gateway") else { continue }
                if !ImpureFiles.pureModules.contains(module) {
                    foreign.append("\(file.path):\(line.number) imports \(module)")
                }
            }
        }
        #expect(foreign == [], "take it out of the file, or review why the file has to be in ImpureFiles")
    }

    /// What acts asks what decides, never the other way.
    @Test func noPureFileNamesATypeThatActs() {
        let (acting, others) = (
            tree.files.filter { ImpureFiles.acts($0.path) },
            tree.files.filter { ImpureFiles.covers($0.path) && !ImpureFiles.acts($0.path) }
        )
        let types = Set(
            acting.flatMap(\.lines).filter { $0.code.first?.isWhitespace == false }.compactMap { declaredType($0.code) }
        )
        #expect(!types.isEmpty)
        var uses: [String] = []
        for file in others {
            // A type of its own, such as `RoutePlan.Timeouts`, may have the name of one that acts.
            let own = Set(file.lines.compactMap { declaredType($0.code) })
            for line in file.lines {
                for word in leadingWords(line.code) where types.contains(word) && !own.contains(word) {
                    uses.append("\(word) in \(file.path):\(line.number)")
                }
            }
        }
        #expect(uses == [])
    }

    @Test func everyImpureFileExists() {
        let gone = (ImpureFiles.acting + ImpureFiles.counting).filter { path in
            !tree.files.contains { $0.path.hasPrefix(path) }
        }
        #expect(gone == [], "take it off the list")
    }

    @Test func whatDecidesReadsNoClockAndNoEnvironment() throws {
        let places = try tree.places(
            in: { ImpureFiles.covers($0.path) && !ImpureFiles.acts($0.path) },
            matching: #"\b(Date\(\)|ContinuousClock|SuspendingClock|ProcessInfo|FileManager|Task \{|Task\.detached)"#
        )
        #expect(places == [])
    }

    @Test func whatDecidesVouchesForNothingThatTheCompilerCannotCheck() throws {
        // A counter that is memory of its own: it decides nothing.
        let memory: Set = ["GatewayProxy/Upstream/SparseCounts.swift"]
        let places = try tree.places(
            in: { ImpureFiles.covers($0.path) && !ImpureFiles.acts($0.path) && !memory.contains($0.path) },
            matching: #"@unchecked Sendable|nonisolated\(unsafe\)"#
        )
        #expect(places == [])
    }

    /// An `assert` does not trap in a release, which drops it: it is the way to state an invariant.
    @Test func nothingTrapsOnPurpose() throws {
        // A list of strategies that names one twice is a mistake in this code, found by the first test that runs.
        let ownMistakes: Set = ["GatewayTokens/Auth/StrategyCatalog.swift"]
        let places = try tree.places(
            in: { !ownMistakes.contains($0.path) },
            matching: #"\btry!|\bas!|\b(fatalError|preconditionFailure|precondition)\("#
        )
        #expect(places == [])
    }

    /// Its memory is its parent's, and the runtime still reads it when the parent may have given it away (see `SideBySide`).
    @Test func noTaskLivesInTheMemoryOfAnother() throws {
        let places = try tree.places(matching: #"\basync let\b"#)
        #expect(places == [], "take SideBySide or a group of tasks")
    }

    @Test func onlyTheCommandPrints() throws {
        let printing: Set = ["authgateway"]
        let places = try tree.places(in: { !printing.contains($0.target) }, matching: #"\b(print|debugPrint|dump)\("#)
        #expect(places == [])
    }

    @Test func theFilesThatReadSecretsAreTheOnesOnTheList() throws {
        let places = try tree.places(
            in: { $0.path != "GatewayHTTP/Secrets/Secret.swift" },
            matching: #"\.withValue\b"#
        )
        let files = Set(places.map { String($0.prefix { $0 != ":" }) })
        #expect(files.subtracting(SecretReaders.files) == [], "a new reader of secrets: review it, then add it")
        #expect(SecretReaders.files.subtracting(files) == [], "no longer a reader of secrets: take it off the list")
    }

    /// The release has no languages, calendars and zones for them (docs/internals/adr/0027).
    @Test func nothingNeedsTheDataOfICU() throws {
        let places = try tree.places(
            matching: #"\b(\w*DateFormatter|NumberFormatter|Calendar|TimeZone|Locale|NSRegularExpression|localized\w+)"#
        )
        #expect(places == [])
    }

    /// A test that hangs has to end as a failure with its name.
    @Test func everySuiteHasATimeLimit() throws {
        let (files, keywords) = (try SourceTree.load("Tests").files, ["struct", "class", "actor", "enum", "extension"])
        var (limited, unlimited) = (0, [String]())
        for file in files {
            var (hasLimit, previous) = (false, "")
            for line in file.lines {
                let isIndented = line.code.first?.isWhitespace ?? true
                if !isIndented, line.code.split(separator: " ").contains(where: { keywords.contains(String($0)) }) {
                    hasLimit = previous.hasPrefix("@Suite(") && previous.contains(".timeLimit(")
                    limited += hasLimit ? 1 : 0
                } else if line.code.contains("@Test"), !hasLimit {
                    unlimited.append("\(file.path):\(line.number)")
                }
                previous = line.code
            }
        }
        #expect(limited > 0)
        #expect(unlimited == [], "write @Suite(.timeLimit(.minutes(5))) on the line before the type")
    }

    /// The type that a line declares, at whatever depth.
    private func declaredType(_ code: String) -> String? {
        let words = code.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.map(String.init)
        let kinds: Set = ["struct", "class", "enum", "actor", "protocol", "typealias"]
        guard let position = words.firstIndex(where: kinds.contains), position + 1 < words.count else { return nil }
        return words[position + 1]
    }

    /// The words of a line, except those behind a period: they are members of what stands before it.
    private func leadingWords(_ code: String) -> [String] {
        let paths = code.split { !$0.isLetter && !$0.isNumber && $0 != "_" && $0 != "." }
        return paths.compactMap { $0.first == "." ? nil : $0.split(separator: ".").first.map(String.init) }
    }

    private func importedModule(_ code: String) -> String? {
        let words = code.split(separator: " ").map(String.init)
        guard let position = words.firstIndex(of: "import"), position + 1 < words.count else { return nil }
        let modifiers: Set = [
            "package", "internal", "public", "private", "fileprivate", "@preconcurrency", "@testable",
        ]
        guard words[..<position].allSatisfy({ modifiers.contains($0) || $0.hasPrefix("@") }) else { return nil }
        let kinds: Set = ["struct", "class", "enum", "protocol", "func", "var", "let", "typealias"]
        let name = words.dropFirst(position + 1).first { !kinds.contains($0) }
        return name.map { String($0.prefix { $0 != "." }) }
    }
}
