import Foundation
import GatewayHTTP
import Testing

@testable import GatewayStrategies

/// The arithmetic of Signature Version 4. One case of AWS's own suite stands here (awslabs/aws-c-auth, Apache License 2.0). All of
/// them are read where the folder with the suite is: beside the checkout, or where `AUTHGATEWAY_VECTORS` says.
@Suite("AWS Signature Version 4", .timeLimit(.minutes(5)))
struct SignatureV4Tests {
    private static let key = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    private static let scope = SignatureV4.Scope(date: "20150830", region: "us-east-1", service: "service")

    @Test func oneCaseOfTheSuite() {
        let request = SignatureV4.Request(
            method: "GET",
            path: Array("/".utf8),
            query: Array("Param2=value2&Param1=value1".utf8),
            fields: [field("host", "example.amazonaws.com"), field("x-amz-date", "20150830T123600Z")],
            payload: SignatureV4.emptyHash,
            pathRule: .standard
        )
        let text = SignatureV4.stringToSign(request.canonical, at: "20150830T123600Z", Self.scope)
        #expect(
            SignatureV4.Key(Self.scope, secret: Self.key).signature(of: text)
                == "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"
        )
    }

    @Test(
        .enabled(if: VectorCase.folder != nil, "the suite of awslabs/aws-c-auth is not beside the checkout"),
        arguments: VectorCase.names
    )
    func theWholeSuite(_ name: String) throws {
        let vector = try VectorCase(name)
        #expect(try vector.signsInFields().isEmpty, "\(name): fields")
        #expect(try vector.signsInQuery().isEmpty, "\(name): query")
    }

    @Test func theSuiteIsWhole() {
        #expect(VectorCase.folder == nil || VectorCase.names.count == 38)
    }

    // MARK: What the suite does not have

    @Test(arguments: [
        ("/bucket/a%20b", "/bucket/a%20b"), ("/bucket/a+b:c", "/bucket/a%2Bb%3Ac"),
        ("/bucket//a/../b", "/bucket//a/../b"),
        ("/bucket/a%2Fb", "/bucket/a/b"), ("", "/"),
    ])
    func thePathOfS3IsEncodedOnce(_ sent: String, _ canonical: String) {
        #expect(String(decoding: SignatureV4.canonicalPath(Array(sent.utf8), .s3), as: UTF8.self) == canonical)
    }

    @Test(arguments: [("/a%20b", "/a%2520b"), ("/model/a:b/invoke", "/model/a%3Ab/invoke"), ("", "/")])
    func otherPathsAreEncodedTwice(_ sent: String, _ canonical: String) {
        #expect(String(decoding: SignatureV4.canonicalPath(Array(sent.utf8), .standard), as: UTF8.self) == canonical)
    }

    @Test(arguments: [
        ("b=2&a=1", "a=1&b=2"), ("a=2&a=1", "a=1&a=2"), ("uploads", "uploads="), ("a=b/c", "a=b%2Fc"),
        ("a=b%2fc", "a=b%2Fc"),
        ("a=b+c", "a=b%20c"), ("a=b=c", "a=b%3Dc"), ("&a=1&&", "a=1"),
    ])
    func theQueryIsEncodedAndSorted(_ sent: String, _ canonical: String) {
        #expect(String(decoding: CanonicalQuery.encoded([Array(sent.utf8)]), as: UTF8.self) == canonical)
    }
}

private func field(_ name: String, _ value: String) -> SignatureV4.Field {
    SignatureV4.Field(name: name, value: Array(value.utf8))
}

/// A folder of the suite: a request, what it is signed with, and each step on the way to its signature.
private struct VectorCase {
    static let folder: URL? = {
        let environment = ProcessInfo.processInfo.environment
        let asked =
            environment["AUTHGATEWAY_VECTORS"] ?? "\(FileManager.default.currentDirectoryPath)/../shared/vectors"
        let folder = URL(filePath: asked).appending(path: "sigv4")
        return FileManager.default.fileExists(atPath: folder.path) ? folder : nil
    }()

    static let names: [String] = {
        guard let folder else { return [] }
        return (try? FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()) ?? []
    }()

    private struct Context: Decodable {
        struct Credentials: Decodable {
            let access_key_id: String
            let secret_access_key: String
            let token: String?
        }
        let credentials: Credentials
        let expiration_in_seconds: Int
        let normalize: Bool
        let region: String
        let service: String
        let sign_body: Bool
        let timestamp: String
        let omit_session_token: Bool?
    }

    private let files: URL
    private let context: Context
    private let time: String
    private let scope: SignatureV4.Scope
    private let method: String
    private let path: String
    private let query: String
    private var fields: [SignatureV4.Field] = []
    private let body: [UInt8]

    init(_ name: String) throws {
        files = try #require(Self.folder).appending(path: name)
        context = try JSONDecoder().decode(Context.self, from: Data(contentsOf: files.appending(path: "context.json")))
        time = SignatureV4.timestamp(try #require(UnixTime(rfc3339: context.timestamp)))
        scope = SignatureV4.Scope(date: String(time.prefix(8)), region: context.region, service: context.service)
        let text = try String(contentsOf: files.appending(path: "request.txt"), encoding: .utf8)
            .replacingOccurrences(of: "\r\n", with: "\n")
        let end = text.range(of: "\n\n")
        let head = end.map { text[..<$0.lowerBound] } ?? text[...]
        body = end.map { Array(text[$0.upperBound...].utf8) } ?? []
        var lines = head.split(separator: "\n").map(String.init)
        // The target may have a space.
        let line = lines.removeFirst().replacingOccurrences(of: " HTTP/1.1", with: "")
        method = String(line.prefix { $0 != " " })
        let target = line.dropFirst(method.count + 1)
        path = String(target.prefix { $0 != "?" })
        query = String(target.dropFirst(path.count + 1))
        for line in lines {
            if line.first == " ", let last = fields.popLast() {
                fields.append(field(last.name, String(decoding: last.value, as: UTF8.self) + line))
            } else {
                let name = line.prefix { $0 != ":" }
                fields.append(field(name.lowercased(), String(line.dropFirst(name.count + 1))))
            }
        }
    }

    private var payload: String { context.sign_body ? SignatureV4.hash(body.span) : SignatureV4.emptyHash }

    /// The token that is signed; nil if it is added behind the signature.
    private var signedToken: String? { context.omit_session_token == true ? nil : context.credentials.token }

    func signsInFields() throws -> [String] {
        var own = [field("x-amz-date", time)]
        if let signedToken { own.append(field("x-amz-security-token", signedToken)) }
        if context.sign_body { own.append(field("x-amz-content-sha256", payload)) }
        return try differences("header", fields + own, query)
    }

    func signsInQuery() throws -> [String] {
        var names = Set(fields.map(\.name)).sorted().joined(separator: ";")
        names = PercentEncoding.encode(names)
        let credential = PercentEncoding.encode("\(context.credentials.access_key_id)/\(scope.text)")
        var query = query.isEmpty ? "" : "\(query)&"
        query += "X-Amz-Algorithm=\(SignatureV4.algorithm)&X-Amz-Credential=\(credential)&X-Amz-Date=\(time)"
        query += "&X-Amz-SignedHeaders=\(names)&X-Amz-Expires=\(context.expiration_in_seconds)"
        if let signedToken { query += "&X-Amz-Security-Token=\(PercentEncoding.encode(signedToken))" }
        return try differences("query", fields, query)
    }

    /// - Returns: The names of the files that have something else.
    private func differences(_ way: String, _ fields: [SignatureV4.Field], _ query: String) throws -> [String] {
        let request = SignatureV4.Request(
            method: method,
            path: Array(path.utf8),
            query: Array(query.utf8),
            fields: fields,
            payload: payload,
            pathRule: SignatureV4.PathRule(normalizes: context.normalize, encodesTwice: true)
        )
        let text = SignatureV4.stringToSign(request.canonical, at: time, scope)
        let key = Secret(context.credentials.secret_access_key)
        let made = [
            ("canonical-request", String(decoding: request.canonical, as: UTF8.self)), ("string-to-sign", text),
            ("signature", SignatureV4.Key(scope, secret: key).signature(of: text)),
        ]
        return try made.compactMap { name, text in
            let file = files.appending(path: "\(way)-\(name).txt")
            return try String(contentsOf: file, encoding: .utf8) == text ? nil : file.lastPathComponent
        }
    }
}
