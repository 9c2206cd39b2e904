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

    init(_ response: TokenReply) {
        let xml = Self.isXML(response.body)
        let json = xml ? nil : JSONValue(response.body)
        let type = response.field("x-amzn-errortype") ?? json?["__type"]?.string ?? json?["code"]?.string
        code = type.map(Self.name) ?? (xml ? Self.text(of: "Code", in: response.body) : nil)
        message =
            (xml ? Self.text(of: "Message", in: response.body) : json?["message"]?.string ?? json?["Message"]?.string)
            ?? ""
    }

    /// - Parameter isTemporary: The keys have a session token.
    static func verdict(on response: TokenReply, isToHead: Bool, isTemporary: Bool) -> SignatureVerdict? {
        guard statuses.contains(response.status) else { return nil }
        let error = AWSErrorResponse(response)
        if let code = error.code {
            if rejectedKeys.contains(code) { return .keysRejected }
            let isTime = wrongTimes.contains(code) || wrongSignatures.contains(code) && error.isAboutTime
            return isTime ? .wrongTime(least: namedDifference) : nil
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

    // MARK: Reading

    /// `com.amazon.coral.service#ExpiredTokenException:http://internal.amazon.com/coral/…`
    private static func name(_ type: String) -> String {
        let shape = type.prefix { $0 != ":" }
        return String(shape.split(separator: "#").last ?? shape)
    }

    /// Whether the root is an error. A page of a user's may hold a `Code`, too.
    private static func isXML(_ body: [UInt8]) -> Bool {
        var rest = body[...].drop(while: isBlank)
        if rest.starts(with: "<?xml".utf8) {
            guard let end = rest.firstIndex(of: UInt8(ascii: ">")) else { return false }
            rest = rest[(end + 1)...].drop(while: isBlank)
        }
        return ["<Error", "<Response"].contains { rest.starts(with: $0.utf8) }
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }

    /// The text of the first element with this name that has no attributes.
    private static func text(of name: String, in body: [UInt8]) -> String? {
        guard let start = body.firstRange(of: Array("<\(name)>".utf8)) else { return nil }
        let rest = body[start.upperBound...].prefix(longestText)
        guard let end = rest.firstIndex(of: UInt8(ascii: "<")) else { return nil }
        return String(decoding: rest[..<end], as: UTF8.self)
    }

    private static let longestText = 1024
}
