import GatewayHTTP
import GatewayTokens

/// The error in a response of AWS, and what it says about the signature of the request.
///
/// Services answer with 400, 401 or 403, and with a code that each protocol puts elsewhere
/// (smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html#operation-error-serialization):
///
/// - XML: `<Error><Code>`, alone, in `ErrorResponse`, or in `Response`
/// - JSON: `__type` or `code`, with a namespace before `#`
/// - the field `x-amzn-errortype`, with a URI after `:`
///
/// The response to HEAD has no body, and S3 sends no such field.
struct AWSErrorResponse: Hashable, Sendable {
    static let statuses = [400, 401, 403]

    /// nil if the response does not say.
    let code: String?
    let message: String

    /// The keys have expired, were withdrawn, or are unknown
    /// (docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html,
    /// docs.aws.amazon.com/amazondynamodb/latest/developerguide/CommonErrors.html).
    private static let rejectedKeys: Set = [
        "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidToken",
        "TokenRefreshRequired", "UnrecognizedClientException",
    ]
    private static let wrongTimes: Set = ["RequestExpired", "RequestInTheFuture", "RequestTimeTooSkewed"]
    /// Other reasons than the time are more frequent for these, so the message counts.
    private static let wrongSignatures: Set = ["InvalidSignatureException", "SignatureDoesNotMatch"]

    /// A date that is this close to the service's clock is not what it refused. Services accept five minutes, S3 fifteen.
    static let namedDifference = 30
    static let unnamedDifference = 240

    /// Where XML has code and message. moto, and APIs of AWS that are older than STS, put the error into a list.
    private static let places = [
        "Error", "ErrorResponse/Error", "ErrorResponse/Errors/Error", "Response/Errors/Error",
    ]

    /// - Parameter response: May have only the beginning of its body.
    init(_ response: TokenReply) {
        let isXML = response.body.first { !$0.isXMLSpace } == UInt8(ascii: "<")
        let xml = isXML ? XMLTexts(beginning: response.body) : nil
        let json = isXML ? nil : JSONValue(response.body)
        func text(_ name: String) -> String? { Self.places.lazy.compactMap { xml?.first("\($0)/\(name)") }.first }
        let type = response.field("x-amzn-errortype") ?? json?["__type"]?.string ?? json?["code"]?.string
        code = type.map(Self.name) ?? text("Code")
        message = text("Message") ?? json?["message"]?.string ?? json?["Message"]?.string ?? ""
    }

    /// - Parameter isTemporary: The keys have a session token.
    static func verdict(on response: TokenReply, isToHead: Bool, isTemporary: Bool) -> SignatureVerdict? {
        guard statuses.contains(response.status) else { return nil }
        let error = AWSErrorResponse(response)
        if let code = error.code {
            if rejectedKeys.contains(code) { return .keysRejected }
            if wrongTimes.contains(code) || wrongSignatures.contains(code) && error.isAboutTime {
                return .wrongTime(least: namedDifference)
            }
            // The secret access key is wrong, or was read before the other one was replaced. Keys that a service has made fit together.
            return wrongSignatures.contains(code) && !isTemporary ? .keysRejected : nil
        }
        guard isToHead else { return nil }
        switch response.status {
        case 403: return .wrongTime(least: unnamedDifference)
        // What `aws s3 cp` meets first once its token has expired. A bucket in another region has the same status, and names the region.
        case 400 where isTemporary && response.field("x-amz-bucket-region") == nil: return .keysRejected
        default: return nil
        }
    }

    /// `Signature expired: 20260301T093000Z is now earlier than …`, `Signature not yet current: … is still later than …`
    private var isAboutTime: Bool {
        message.hasPrefix("Signature expired") || message.hasPrefix("Signature not yet current")
    }

    /// `com.amazon.coral.service#ExpiredTokenException:http://internal.amazon.com/coral/…`
    private static func name(_ type: String) -> String {
        let shape = type.prefix { $0 != ":" }
        return String(shape.split(separator: "#").last ?? shape)
    }
}
