import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite(.timeLimit(.minutes(5)))
struct CredentialTests {
    private let credential = Credential(
        name: "service",
        generation: 1,
        injection: Injection(fields: [
            Injection.Field(name: "Authorization", value: Secret("Bearer s3cr3t")),
            Injection.Field(name: "X-Key", value: Secret("s3cr3t-too")),
        ])
    )

    @Test func itsFieldsAreReadyToBeSent() {
        let sent = credential.fieldLines.withValue { String(decoding: $0, as: UTF8.self) }
        #expect(sent == "Authorization: Bearer s3cr3t\r\nX-Key: s3cr3t-too\r\n")
        #expect(credential.fieldLines.count == sent.utf8.count)
        #expect(Credential(name: "bare", generation: 1, injection: Injection()).fieldLines.count == 0)
    }

    @Test func nothingShowsThem() {
        var dumped = ""
        Swift.dump(credential, to: &dumped)
        // As numbers, too: the "s3" of the value.
        #expect(!dumped.contains("s3cr3t") && !dumped.contains("115"))
        #expect("\(credential.fieldLines)" == "‹secret›")
    }
}
