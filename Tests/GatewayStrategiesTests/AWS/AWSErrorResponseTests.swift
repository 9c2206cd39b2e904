import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("AWS: what errors say about the signature", .timeLimit(.minutes(5)))
struct AWSErrorResponseTests {
    private func verdict(
        _ status: Int,
        _ body: String = "",
        _ fields: [(String, String)] = [],
        isToHead: Bool = false,
        isTemporary: Bool = true
    ) -> SignatureVerdict? {
        let response = TokenReply(
            status: status,
            fields: fields.map { TokenReply.Field(name: $0.0, value: $0.1) },
            body: Array(body.utf8)
        )
        return AWSErrorResponse.verdict(on: response, isToHead: isToHead, isTemporary: isTemporary)
    }

    private static func s3(_ code: String, _ message: String = "A message.") -> String {
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>\(code)</Code><Message>\(message)</Message></Error>"
    }

    private static func query(_ code: String, _ message: String = "A message.") -> String {
        "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n  <Error>\n    <Type>Sender</Type>\n"
            + "    <Code>\(code)</Code>\n    <Message>\(message)</Message>\n  </Error>\n</ErrorResponse>"
    }

    private static func ec2(_ code: String) -> String {
        "<?xml version=\"1.0\"?><Response><Errors><Error><Code>\(code)</Code><Message>x</Message></Error></Errors></Response>"
    }

    private static func json(_ code: String, _ message: String = "A message.", key: String = "message") -> String {
        "{\"__type\":\"\(code)\",\"\(key)\":\"\(message)\"}"
    }

    // MARK: Keys

    @Test(arguments: [
        (400, s3("ExpiredToken")), (400, s3("InvalidToken")), (403, s3("InvalidAccessKeyId")),
        (400, s3("TokenRefreshRequired")), (403, query("ExpiredToken")), (403, query("InvalidClientTokenId")),
        (400, json("com.amazon.coral.service#ExpiredTokenException")),
        (400, json("com.amazonaws.dynamodb.v20120810#UnrecognizedClientException")),
        (400, json("UnrecognizedClientException", key: "Message")), (401, "{\"code\":\"ExpiredTokenException\"}"),
        (403, " \r\n" + s3("ExpiredToken")), (403, "<Error><Code><![CDATA[ExpiredToken]]></Code></Error>"),
        (403, "<ErrorResponse><Errors><Error><Code>ExpiredToken</Code></Error></Errors></ErrorResponse>"),
        (400, "<Error><Code>ExpiredToken</Code><Message>cut"),
        (400, ec2("RequestExpired").replacing("RequestExpired", with: "InvalidClientTokenId")),
    ])
    func rejectedKeys(_ status: Int, _ body: String) {
        #expect(verdict(status, body) == .keysRejected)
    }

    @Test(arguments: [
        "ExpiredTokenException", "aws.protocoltests#ExpiredTokenException:http://internal.amazon.com/coral/x#y",
        "UnrecognizedClientException:http://internal.amazon.com/coral/com.amazon.coral.service/",
    ])
    func aFieldNamesTheErrorToo(_ type: String) {
        #expect(verdict(403, "{\"message\":\"x\"}", [("X-Amzn-ErrorType", type)]) == .keysRejected)
        #expect(verdict(403, "", [("x-amzn-errortype", type)], isToHead: true) == .keysRejected)
    }

    @Test(arguments: [
        (403, s3("AccessDenied")), (400, s3("NoSuchBucket")), (200, s3("ExpiredToken")), (404, s3("ExpiredToken")),
        (500, json("ExpiredTokenException")), (400, json("ValidationException", "ExpiredTokenException")),
        (403, "<html><Code>ExpiredToken</Code></html>"),
        (403, "<Error><Other><Code>ExpiredToken</Code></Other></Error>"),
        (403, "<Error><Code>AccessDenied</Code><Code>ExpiredToken</Code></Error>"),
        (403, "<!DOCTYPE a [<!ENTITY b \"ExpiredToken\">]><Error><Code>&b;</Code></Error>"),
        (403, "<?xml version"), (403, "ExpiredToken"), (403, ""),
        (403, "<Error><Code>ExpiredToken"), (400, "{\"__type\":1}"), (400, "[]"), (400, "{"),
        (403, "<Error><Code>" + String(repeating: "x", count: 2000) + "</Code></Error>"),
    ])
    func otherErrors(_ status: Int, _ body: String) {
        #expect(verdict(status, body) == nil)
    }

    // MARK: Time

    private static let expired = "Signature expired: 20260301T093000Z is now earlier than 20260301T094000Z"
    private static let early = "Signature not yet current: 20260301T093000Z is still later than 20260301T092000Z"

    @Test(arguments: [
        (403, s3("RequestTimeTooSkewed")), (400, ec2("RequestExpired")), (403, query("RequestExpired")),
        (403, query("SignatureDoesNotMatch", expired)), (403, query("SignatureDoesNotMatch", early)),
        (400, json("com.amazon.coral.service#InvalidSignatureException", expired)),
        (403, json("InvalidSignatureException", early, key: "Message")), (403, json("RequestInTheFuture")),
    ])
    func anotherTime(_ status: Int, _ body: String) {
        #expect(verdict(status, body) == .wrongTime(least: AWSErrorResponse.namedDifference))
    }

    @Test(arguments: [
        query("SignatureDoesNotMatch", "The request signature we calculated does not match. Signature expired"),
        json("InvalidSignatureException", "The request signature we calculated does not match."),
        s3("SignatureDoesNotMatch"),
    ])
    func aSignatureThatIsWrongInAnotherWay(_ body: String) {
        #expect(verdict(403, body) == nil)
        #expect(verdict(403, body, isTemporary: false) == .keysRejected)
    }

    // MARK: HEAD

    @Test func toHeadTheStatusHasToDo() {
        #expect(verdict(403, isToHead: true) == .wrongTime(least: AWSErrorResponse.unnamedDifference))
        #expect(verdict(400, isToHead: true) == .keysRejected)
        #expect(verdict(400, isToHead: true, isTemporary: false) == nil)
        #expect(verdict(400, "", [("x-amz-bucket-region", "eu-west-1")], isToHead: true) == nil)
        #expect(verdict(401, isToHead: true) == nil)
        #expect(verdict(404, isToHead: true) == nil)
    }
}
