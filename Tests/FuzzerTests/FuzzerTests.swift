import Foundation
import Testing

/// The inputs that the fuzzers of this folder keep (`corpus/NAME.txt`). `scripts/fuzz` compiles each fuzzer once more, for libFuzzer.
@Suite("Kept inputs of the fuzzers", .timeLimit(.minutes(5)))
struct FuzzerTests {
    static let fuzzers: [(name: String, run: @Sendable ([UInt8]) -> Void)] = [
        ("AuditFuzzer", fuzzAudit), ("ChallengeFuzzer", fuzzChallenge), ("ChunkFuzzer", fuzzChunk),
        ("FieldBlockFuzzer", fuzzFieldBlock), ("HTTP2FrameFuzzer", fuzzHTTP2Frame),
        ("RequestHeadFuzzer", fuzzRequestHead), ("ResponseHeadFuzzer", fuzzResponseHead),
        ("TokenAnswerFuzzer", fuzzTokenAnswer), ("YAMLFuzzer", fuzzYAML),
    ]
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent()

    @Test func everyFuzzerIsInTheList() throws {
        let files = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
        let names = files.filter { $0.hasSuffix("Fuzzer.swift") }.map { String($0.dropLast(".swift".count)) }
        #expect(names.sorted() == Self.fuzzers.map(\.name))
    }

    @Test(arguments: fuzzers.map(\.name))
    func theKeptInputsHold(_ name: String) throws {
        let run = try #require(Self.fuzzers.first { $0.name == name }).run
        let text = try String(contentsOf: Self.folder.appending(path: "corpus/\(name).txt"), encoding: .utf8)
        let lines = text.split(separator: "\n")
        #expect(lines.count >= 20)
        // An input that a fuzzer refuses ends the process, as it does in libFuzzer.
        for line in lines { run(try #require(PythonBytes.decode(line), "\(name): \(line)")) }
    }

    @Test func bytesAreReadAsPythonWritesThem() {
        #expect(PythonBytes.decode(#"a\x00\xff\n\t\r\\\'""#) == [0x61, 0, 0xFF, 0x0A, 0x09, 0x0D, 0x5C, 0x27, 0x22])
        #expect(PythonBytes.decode(#"\x0"#) == nil)
        #expect(PythonBytes.decode(#"\q"#) == nil)
    }
}

/// What stands between the quotes of a bytes literal of Python: how `corpus.py` keeps an input.
private enum PythonBytes {
    private static let escapes: [UInt8: UInt8] = [
        UInt8(ascii: "n"): 0x0A, UInt8(ascii: "t"): 0x09, UInt8(ascii: "r"): 0x0D, UInt8(ascii: "\\"): 0x5C,
        UInt8(ascii: "'"): 0x27, UInt8(ascii: "\""): 0x22,
    ]

    static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var (bytes, rest) = ([UInt8](), Array(text.utf8)[...])
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\") else {
                bytes.append(byte)
                continue
            }
            guard let kind = rest.popFirst() else { return nil }
            if kind == UInt8(ascii: "x") {
                let digits = rest.prefix(2)
                guard digits.count == 2, let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 16) else {
                    return nil
                }
                bytes.append(value)
                rest = rest.dropFirst(2)
            } else if let value = escapes[kind] {
                bytes.append(value)
            } else {
                return nil
            }
        }
        return bytes
    }
}
