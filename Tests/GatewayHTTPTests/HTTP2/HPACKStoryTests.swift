import Foundation
import GatewayHTTP
import Testing

/// Blocks that other encoders have written, from http2jp/hpack-test-case (MIT License). A few stand here. All of them are read where
/// the folder with that collection is: beside the checkout, or where `AUTHGATEWAY_VECTORS` says.
@Suite("Field blocks of other encoders", .timeLimit(.minutes(5)))
struct HPACKStoryTests {
    struct Story: Sendable, CustomTestStringConvertible {
        let encoder: String
        let blocks: [String]
        /// Per block, a line a field.
        let fields: [String]
        var testDescription: String { encoder }
    }

    @Test(arguments: stories)
    func blocksOfOneConnection(_ story: Story) throws {
        var decoder = FieldBlockDecoder()
        for (block, fields) in zip(story.blocks, story.fields) {
            let read = try decoder.decode(hexBytes(block), .unjudged)
            #expect(read.lines == fields.split(separator: "\n").map(String.init))
        }
    }

    private static let folder: URL? = {
        let environment = ProcessInfo.processInfo.environment
        let asked =
            environment["AUTHGATEWAY_VECTORS"] ?? "\(FileManager.default.currentDirectoryPath)/../shared/vectors"
        let folder = URL(filePath: asked).appending(path: "hpack")
        return FileManager.default.fileExists(atPath: folder.path) ? folder : nil
    }()

    @Test(
        .enabled(if: folder != nil, "the stories of http2jp/hpack-test-case are not beside the checkout"),
        arguments: encoders
    )
    func theWholeCollection(_ encoder: String) throws {
        let folder = try #require(Self.folder).appending(path: encoder)
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        var count = 0
        for file in files where file.pathExtension == "json" {
            var (decoder, other) = (FieldBlockDecoder(), FieldBlockDecoder())
            for (number, step) in try Self.steps(of: file).enumerated() {
                let expected = joined(step.fields.map { "\($0.name): \($0.value)" })
                let read = try decoder.decode(step.block, .unjudged)
                #expect(read.lines == expected, "\(file.lastPathComponent), block \(number)")
                // The same fields as our encoder writes them.
                let written = try other.decode(Self.block(of: step.fields, isFirst: number == 0), .unjudged)
                #expect(written.lines == expected, "\(file.lastPathComponent), block \(number), written again")
                count += 1
            }
        }
        #expect(count > 100)
    }

    private static let encoders = [
        "haskell-http2-linear-huffman", "haskell-http2-static", "nghttp2-change-table-size", "python-hpack",
    ]

    private struct Step {
        var block: [UInt8] = []
        var fields: [(name: String, value: String)] = []
    }

    private static func steps(of file: URL) throws -> [Step] {
        let story = try #require(JSONValue([UInt8](Data(contentsOf: file))))
        guard case .array(let cases) = story["cases"] else { throw IncompleteStory() }
        return try cases.map { story throws in
            guard case .string(let wire) = story["wire"], case .array(let headers) = story["headers"] else {
                throw IncompleteStory()
            }
            var step = Step(block: hexBytes(wire))
            for header in headers {
                guard case .object(let members) = header, members.count == 1, let member = members.first,
                    case .string(let value) = member.value
                else { throw IncompleteStory() }
                step.fields.append((member.key, value))
            }
            return step
        }
    }

    private struct IncompleteStory: Error {}

    private static func block(of fields: [(name: String, value: String)], isFirst: Bool) -> [UInt8] {
        var isComplete = false
        let frame = unsafe [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
            var writer = unsafe HTTP2FrameWriter(UnsafeMutableRawBufferPointer(buffer))
            writer.beginFields(stream: 1, isFirst: isFirst)
            for field in fields { write(field.name, field.value, by: &writer) }
            writer.endFields(isLast: true)
            (count, isComplete) = (writer.count, writer.isComplete)
        }
        #expect(isComplete && HTTP2FrameHeader(frame.span, at: 0).length == frame.count - HTTP2FrameHeader.size)
        return Array(frame[HTTP2FrameHeader.size...])
    }

    private static func write(_ name: String, _ value: String, by writer: inout HTTP2FrameWriter) {
        let bytes = Array(value.utf8)
        switch name {
        case ":method": writer.method(bytes.span, bytes.indices)
        case ":scheme": writer.scheme(isTLS: value == "https")
        case ":path": writer.path(bytes.span, bytes.indices, isSecret: false)
        case ":authority": writer.authority(bytes.span, bytes.indices)
        case ":status": writer.status(Int(value) ?? 0)
        default:
            let line = Array(name.utf8) + bytes
            let end = name.utf8.count
            writer.field(line.span, name: 0..<end, value: end..<line.count)
        }
    }

    /// Crumbs of the cookie become one field, the last.
    private func joined(_ lines: [String]) -> [String] {
        let crumbs = lines.filter { $0.hasPrefix("cookie: ") }.map { $0.dropFirst("cookie: ".count) }
        let others = lines.filter { !$0.hasPrefix("cookie: ") }
        return crumbs.isEmpty ? others : others + ["cookie: " + crumbs.joined(separator: "; ")]
    }

    private static let searches = [
        """
        :method: GET
        :scheme: http
        :authority: baidu.com
        :path: /
        user-agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10.8; rv:16.0) Gecko/20100101 Firefox/16.0
        accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8
        accept-language: en-US,en;q=0.5
        accept-encoding: gzip, deflate
        connection: keep-alive
        """,
        """
        :method: GET
        :scheme: http
        :authority: baidu.com
        :path: /favicon.ico
        user-agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10.8; rv:16.0) Gecko/20100101 Firefox/16.0
        accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8
        accept-language: en-US,en;q=0.5
        accept-encoding: gzip, deflate
        connection: keep-alive
        """,
        """
        :method: GET
        :scheme: http
        :authority: www.baidu.com
        :path: /
        user-agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10.8; rv:16.0) Gecko/20100101 Firefox/16.0
        accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8
        accept-language: en-US,en;q=0.5
        accept-encoding: gzip, deflate
        connection: keep-alive
        """,
        """
        :method: GET
        :scheme: http
        :authority: www.baidu.com
        :path: /img/baidu_sylogo1.gif
        user-agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10.8; rv:16.0) Gecko/20100101 Firefox/16.0
        accept: image/png,image/*;q=0.8,*/*;q=0.5
        accept-language: en-US,en;q=0.5
        accept-encoding: gzip, deflate
        connection: keep-alive
        referer: http://www.baidu.com/
        cookie: BAIDUID=B6136AC10EBE0A8FCD216EB64C4C1A5C:FG=1
        """,
        """
        :method: GET
        :scheme: http
        :authority: www.baidu.com
        :path: /cache/global/img/gs.gif
        user-agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10.8; rv:16.0) Gecko/20100101 Firefox/16.0
        accept: image/png,image/*;q=0.8,*/*;q=0.5
        accept-language: en-US,en;q=0.5
        accept-encoding: gzip, deflate
        connection: keep-alive
        referer: http://www.baidu.com/
        cookie: BAIDUID=B6136AC10EBE0A8FCD216EB64C4C1A5C:FG=1
        """,
        """
        :method: GET
        :scheme: http
        :authority: s1.bdstatic.com
        :path: /r/www/cache/global/js/tangram-1.3.4c1.0.js
        user-agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10.8; rv:16.0) Gecko/20100101 Firefox/16.0
        accept: */*
        accept-language: en-US,en;q=0.5
        accept-encoding: gzip, deflate
        connection: keep-alive
        referer: http://www.baidu.com/
        """,
        """
        :method: GET
        :scheme: http
        :authority: s1.bdstatic.com
        :path: /r/www/cache/global/js/home-1.8.js
        user-agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10.8; rv:16.0) Gecko/20100101 Firefox/16.0
        accept: */*
        accept-language: en-US,en;q=0.5
        accept-encoding: gzip, deflate
        connection: keep-alive
        referer: http://www.baidu.com/
        """,
        """
        :method: GET
        :scheme: http
        :authority: s1.bdstatic.com
        :path: /r/www/cache/user/js/u-1.3.4.js
        user-agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10.8; rv:16.0) Gecko/20100101 Firefox/16.0
        accept: */*
        accept-language: en-US,en;q=0.5
        accept-encoding: gzip, deflate
        connection: keep-alive
        referer: http://www.baidu.com/
        """,
        """
        :method: GET
        :scheme: http
        :authority: s1.bdstatic.com
        :path: /r/www/img/i-1.0.0.png
        user-agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10.8; rv:16.0) Gecko/20100101 Firefox/16.0
        accept: image/png,image/*;q=0.8,*/*;q=0.5
        accept-language: en-US,en;q=0.5
        accept-encoding: gzip, deflate
        connection: keep-alive
        referer: http://www.baidu.com/
        """,
        """
        :method: GET
        :scheme: http
        :authority: www.baidu.com
        :path: /favicon.ico
        user-agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10.8; rv:16.0) Gecko/20100101 Firefox/16.0
        accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8
        accept-language: en-US,en;q=0.5
        accept-encoding: gzip, deflate
        connection: keep-alive
        cookie: BAIDUID=B6136AC10EBE0A8FCD216EB64C4C1A5C:FG=1
        """,
    ]

    private static let examples = [
        """
        :method: GET
        :scheme: http
        :authority: yahoo.co.jp
        :path: /
        """,
        """
        :method: GET
        :scheme: http
        :authority: www.yahoo.co.jp
        :path: /
        """,
        """
        :method: GET
        :scheme: http
        :authority: k.yimg.jp
        :path: /images/top/sp2/cmn/logo-ns-130528.png
        """,
    ]

    private static let stories = [
        Story(
            encoder: "haskell-http2-linear-huffman",
            blocks: [
                "82864188f439ce75c875fa5784",
                "8286418cf1e3c2fe8739ceb90ebf4aff84",
                "82864187eabfa35332fd2b049b60d48e62a1849eb611589825353141e63ad52160b206c4f2f5d537",
            ],
            fields: examples
        ),
        Story(
            encoder: "haskell-http2-static",
            blocks: [
                "8286010b7961686f6f2e636f2e6a7084",
                "8286010f7777772e7961686f6f2e636f2e6a7084",
                """
                828601096b2e79696d672e6a7004262f696d616765732f746f702f7370322f636d6e2f6c6f676f2d6e732d3133303532382e
                706e67
                """,
            ],
            fields: examples
        ),
        Story(
            encoder: "nghttp2-change-table-size",
            blocks: [
                "82864188f439ce75c875fa5784",
                "3fb60a8286418cf1e3c2fe8739ceb90ebf4aff84",
                "3f8b1582864187eabfa35332fd2b049b60d48e62a1849eb611589825353141e63ad52160b206c4f2f5d537",
            ],
            fields: examples
        ),
        Story(
            encoder: "python-hpack",
            blocks: [
                "82864188f439ce75c875fa5784",
                "8286418cf1e3c2fe8739ceb90ebf4aff84",
                "82864187eabfa35332fd2b449b60d48e62a1849eb611589825353141e63ad52160b206c4f2f5d537",
            ],
            fields: examples
        ),
        Story(
            encoder: "haskell-http2-linear-huffman",
            blocks: [
                """
                828641878c6692d5c87a7f847abcd07f66a281b0dae053fad0321aa49d13fda992a49685340c8a6adca7e28102ef7da9677b
                8171707f6a62293a9d810020004015309ac2ca7f2c05c5c153b0497ca589d34d1f43aeba0c41a4c7a98f33a69a3fdf9a68fa
                1d75d0620d263d4c79a68fbed00177febe58f9fbed00177b518b2d4b70ddf45abefb4005db90408721eaa8a4498f5788ea52
                d6b0e83772ff
                """,
                "8286c204896251f7310f52e621ffc1c0bf90be",
                "8286418af1e3c2f18cd25ab90f4f84c2c1c090bf",
                """
                8286be049060d4ccc4633496c48f541e6385798d2fc2539a352398ac5754df46a473158f9fbed00177bebe58f9fbed00176f
                c190c073909d29aee30c78f1e178c6692d5c87a58f60a4bb0e4bfc325f82eb8165c86f04182ee0042f61bd7c417305d71abc
                d5e0c2ddeb9871401f
                """,
                "8286c10491608324e5626a0f18e860d4ccc4c85e634bc5c0c390c2bfbe",
                """
                8286418a40578e442469311721e9049f62c63c78f0c10649cac4d41e31d0c7443091d53583a560aecaed102b817e88c65383
                f963e7c590c4c1
                """,
                "8286bf049962c63c78f0c10649cac4d41e31d0c7443139e92ac15de5fa23c7bec590c4c1",
                "8286bf049762c63c78f0c10649cac5a82d8c744316ac15d95da5fa23c7bec590c4c1",
                "8286bf049162c63c78f0c1a999832c15c0b817aea9bfc7c2c590c4c1",
                "8286c304896251f7310f52e621ffc7c6c590c4c0",
            ],
            fields: searches
        ),
        Story(
            encoder: "nghttp2-change-table-size",
            blocks: [
                """
                828641878c6692d5c87a7f847abcd07f66a281b0dae053fad0321aa49d13fda992a49685340c8a6adca7e28102ef7da9677b
                8171707f6a62293a9d810020004015309ac2ca7f2c05c5c153b0497ca589d34d1f43aeba0c41a4c7a98f33a69a3fdf9a68fa
                1d75d0620d263d4c79a68fbed00177febe58f9fbed00177b518b2d4b70ddf45abefb4005db90408721eaa8a4498f5788ea52
                d6b0e83772ff
                """,
                "8286c204896251f7310f52e621ffc1c0bf90be",
                "8286418af1e3c2f18cd25ab90f4f84c2c1c090bf",
                """
                3fb60a8286be049060d4ccc4633496c48f541e6385798d2fc2539a352398ac5754df46a473158f9fbed00177bebe58f9fbed
                00176fc190c073909d29aee30c78f1e178c6692d5c87a58f60a4bb0e4bfc325f82eb8165c86f04182ee0042f61bd7c417305
                d71abcd5e0c2ddeb9871401f
                """,
                "8286c10491608324e5626a0f18e860d4ccc4c85e634bc5c0c390c2bfbe",
                """
                8286418a40578e442469311721e9049f62c63c78f0c10649cac4d41e31d0c7443091d53583a560aecaed102b817e88c65303
                2a2f2ac590c4c1
                """,
                "3f8b158286bf049962c63c78f0c10649cac4d41e31d0c7443139e92ac15de5fa23c7bec590c4c1",
                "8286bf049762c63c78f0c10649cac5a82d8c744316ac15d95da5fa23c7bec590c4c1",
                "8286bf049162c63c78f0c1a999832c15c0b817aea9bfc7c2c590c4c1",
                "8286c304896251f7310f52e621ffc7c6c590c4c0",
            ],
            fields: searches
        ),
    ]
}
