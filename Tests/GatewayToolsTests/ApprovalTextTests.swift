import Foundation
import GatewayApp
import Testing

@testable import GatewayTools

@Suite("Requests that wait for approval, as text", .timeLimit(.minutes(1)))
struct ApprovalTextTests {
    private func held(_ text: String, bytes: Int, shown: Int, url: String) throws -> HeldRequestStatus {
        let json: [String: Any] = [
            "id": "k3f9a01-2s", "client": "agent", "route": "api", "method": "POST", "url": url,
            "bodySha256": String(repeating: "ab", count: 32), "bodyBytes": bytes, "calls": ["deploy\u{1B}[2J"],
            "text": text, "shownBytes": shown, "ageSeconds": 5, "expiresInSeconds": 175,
        ]
        let data = try JSONSerialization.data(withJSONObject: json)
        return try JSONDecoder().decode(HeldRequestStatus.self, from: data)
    }

    /// A gateway escapes them; the command trusts no gateway.
    @Test func nothingControlsTheTerminal() throws {
        let request = try held(
            "a\u{1B}[2J\nApproved: x\u{202E}",
            bytes: 9,
            shown: 9,
            url: "https://a.example/\u{1B}[1A"
        )
        for text in [
            ApprovalText.whole(of: request), ApprovalText.list(of: [request], TextStyle()),
            ApprovalText.line(of: request),
        ] {
            #expect(!text.contains("\u{1B}") && !text.contains("\u{202E}"))
            #expect(text.contains("k3f9a01-2s") || text.contains("agent"))
        }
        #expect(ApprovalText.whole(of: request).contains("\n  | Approved: x\\u{202e}\n"))
    }

    @Test func aLongURLIsShownWhole() throws {
        let url = "https://a.example/\(String(repeating: "x", count: 20_000))?delete=all"
        let request = try held("{}", bytes: 2, shown: 2, url: url)
        #expect(ApprovalText.whole(of: request).contains("POST \(url)\n"))
    }

    @Test func whatIsNotShownIsSaid() throws {
        let long = try held(String(repeating: "x\n", count: 20), bytes: 50, shown: 40, url: "https://a.example/")
        #expect(ApprovalText.whole(of: long).contains("  ! 10 more bytes of the body are not shown\n"))
        #expect(!ApprovalText.whole(of: long).contains("shortened"))
        #expect(ApprovalText.list(of: [long], TextStyle()).contains("  ! shortened here"))
        let empty = try held("", bytes: 0, shown: 0, url: "https://a.example/")
        #expect(ApprovalText.whole(of: empty).hasPrefix("  | (no body)\n"))
    }
}
