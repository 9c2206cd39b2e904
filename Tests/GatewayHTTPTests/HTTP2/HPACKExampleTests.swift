import Foundation
import Testing

@testable import GatewayHTTP

/// RFC 7541 appendix C.
@Suite("Examples of RFC 7541", .timeLimit(.minutes(1)))
struct HPACKExampleTests {
    struct Step: Sendable {
        let block: String
        let fields: [String]
        let table: [String]
        let size: Int
    }

    struct Example: Sendable, CustomTestStringConvertible {
        let name: String
        var tableSize = 4096
        let steps: [Step]
        var testDescription: String { name }
    }

    @Test(arguments: [(0x1F as UInt8, "0a", 10), (0x1F, "1f9a0a", 1337), (0xFF, "2a", 42)])
    func integers(_ mask: UInt8, _ hex: String, _ value: Int) throws {
        let block = hexBytes(hex)
        var reader = FieldBlockReader(end: block.count)
        let read = try reader.integer(block.span, mask: mask)
        #expect(read == value && reader.position == block.count)
    }

    @Test(arguments: examples)
    func fieldsAndTable(_ example: Example) throws {
        var decoder = FieldBlockDecoder(tableSize: example.tableSize)
        for step in example.steps {
            let fields = try decoder.decode(hexBytes(step.block), .unjudged)
            #expect(fields.lines == step.fields)
            #expect(decoder.remembered.lines == step.table.map { $0 + "\r\n" })
            #expect(decoder.remembered.size == step.size)
        }
    }

    private static let requests = [
        [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"],
        [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"],
        [
            ":method: GET", ":scheme: https", ":path: /index.html", ":authority: www.example.com",
            "custom-key: custom-value",
        ],
    ]
    private static let requestTables = [
        [":authority: www.example.com"], ["cache-control: no-cache", ":authority: www.example.com"],
        ["custom-key: custom-value", "cache-control: no-cache", ":authority: www.example.com"],
    ]
    private static let cookie = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"
    private static let responses = [
        [
            ":status: 302", "cache-control: private", "date: Mon, 21 Oct 2013 20:13:21 GMT",
            "location: https://www.example.com",
        ],
        [
            ":status: 307", "cache-control: private", "date: Mon, 21 Oct 2013 20:13:21 GMT",
            "location: https://www.example.com",
        ],
        [
            ":status: 200", "cache-control: private", "date: Mon, 21 Oct 2013 20:13:22 GMT",
            "location: https://www.example.com", "content-encoding: gzip", cookie,
        ],
    ]
    private static let responseTables = [
        [
            "location: https://www.example.com", "date: Mon, 21 Oct 2013 20:13:21 GMT", "cache-control: private",
            ":status: 302",
        ],
        [
            ":status: 307", "location: https://www.example.com", "date: Mon, 21 Oct 2013 20:13:21 GMT",
            "cache-control: private",
        ],
        [cookie, "content-encoding: gzip", "date: Mon, 21 Oct 2013 20:13:22 GMT"],
    ]

    private static func steps(_ blocks: [String], _ fields: [[String]], _ tables: [[String]], _ sizes: [Int]) -> [Step]
    {
        blocks.indices.map {
            Step(block: blocks[$0], fields: fields[$0], table: tables[$0], size: sizes[$0])
        }
    }

    private static let examples = [
        Example(
            name: "C.2.1",
            steps: [
                Step(
                    block: "400a637573746f6d2d6b65790d637573746f6d2d686561646572",
                    fields: ["custom-key: custom-header"],
                    table: ["custom-key: custom-header"],
                    size: 55
                )
            ]
        ),
        Example(
            name: "C.2.2",
            steps: [Step(block: "040c2f73616d706c652f70617468", fields: [":path: /sample/path"], table: [], size: 0)]
        ),
        Example(
            name: "C.2.3",
            steps: [Step(block: "100870617373776f726406736563726574", fields: ["password: secret"], table: [], size: 0)]
        ),
        Example(name: "C.2.4", steps: [Step(block: "82", fields: [":method: GET"], table: [], size: 0)]),
        Example(
            name: "C.3",
            steps: steps(
                [
                    "828684410f7777772e6578616d706c652e636f6d", "828684be58086e6f2d6361636865",
                    "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
                ],
                requests,
                requestTables,
                [57, 110, 164]
            )
        ),
        Example(
            name: "C.4",
            steps: steps(
                [
                    "828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf",
                    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
                ],
                requests,
                requestTables,
                [57, 110, 164]
            )
        ),
        Example(
            name: "C.5",
            tableSize: 256,
            steps: steps(
                [
                    """
                    4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e1768747470733a
                    2f2f7777772e6578616d706c652e636f6d
                    """, "4803333037c1c0bf",
                    """
                    88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b4851
                    4b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31
                    """,
                ],
                responses,
                responseTables,
                [222, 222, 215]
            )
        ),
        Example(
            name: "C.6",
            tableSize: 256,
            steps: steps(
                [
                    """
                    488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43
                    d3
                    """, "4883640effc1c0bf",
                    """
                    88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27
                    087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007
                    """,
                ],
                responses,
                responseTables,
                [222, 222, 215]
            )
        ),
    ]
}
