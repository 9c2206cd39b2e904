import Testing

@testable import GatewayProxy

@Suite("Informational responses that wait", .timeLimit(.minutes(5)))
struct InformationalRuleTests {
    private static let limit = InformationalRule.maximumUnflushed

    @Test(arguments: [
        (103, 0, true, true), (103, limit - 1, true, true), (103, limit, true, false), (102, limit, true, false),
        (103, 0, false, false), (103, limit, false, false),
        // Clients wait for it.
        (100, 0, true, true), (100, limit, true, true), (100, 0, false, true), (100, .max, false, true),
    ])
    func theirBytesAreBounded(_ status: Int, _ unflushed: Int, _ isWritable: Bool, _ passes: Bool) {
        #expect(InformationalRule.passes(status, unflushed: unflushed, isWritable: isWritable) == passes)
    }

    @Test func theMarkIsThatOfHTTP2() { #expect(Self.limit == HTTP2Output.maximumUnflushed) }
}
