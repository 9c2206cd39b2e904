import GatewayHTTP
import GatewayTesting
import Testing

@Suite(.timeLimit(.minutes(1)))
struct TakesTrailersTests {
    @Test(arguments: [
        ("TE: trailers", true), ("TE: gzip, Trailers", true), ("TE: \ttrailers ,deflate", true), ("TE: gzip", false),
        ("TE: trailers;q=0", false), ("TE: trailersx", false), ("TE:", false), ("Trailer: trailers", false),
    ])
    func onlyTheWordItselfCounts(_ field: String, _ takes: Bool) {
        #expect(HeadText.request([field]) { $0.takesTrailers($1) } == takes)
    }
}
