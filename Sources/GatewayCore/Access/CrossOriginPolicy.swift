/// The web pages of other origins that may call a route from a browser (CORS, section 3.2 of the Fetch standard).
final class CrossOriginPolicy: Sendable {
    private let grants: [CrossOriginGrant]

    /// - Parameters:
    ///   - origins: As browsers spell them.
    ///   - allowsCredentials: The page's requests may carry cookies.
    init(_ origins: [String], allowsCredentials: Bool) {
        grants = origins.map { CrossOriginGrant(origin: $0.lowercased(), allowsCredentials: allowsCredentials) }
    }

    var isEmpty: Bool { grants.isEmpty }

    /// - Parameter value: Of an `Origin`.
    func grant(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> CrossOriginGrant? {
        for grant in grants where bytes.equalsLowercased(value, grant.origin) { return grant }
        return nil
    }
}

/// What a response says to the browser of a page that may read it.
package final class CrossOriginGrant: Sendable {
    package let origin: [UInt8]
    package let fields: [ProblemAnswer.Field]
    /// The same, as lines of HTTP/1.
    package let lines: [UInt8]
    /// The page may read the fields of the response, too.
    package let exposesFields: Bool

    fileprivate init(origin: String, allowsCredentials: Bool) {
        self.origin = Array(origin.utf8)
        var fields = [ProblemAnswer.Field(name: "Access-Control-Allow-Origin", value: origin)]
        if allowsCredentials { fields.append(.init(name: "Access-Control-Allow-Credentials", value: "true")) }
        fields.append(Self.vary)
        self.fields = fields
        lines = Self.lines(fields)
        exposesFields = true
    }

    private init() {
        origin = []
        fields = [Self.vary]
        lines = Self.lines([Self.vary])
        exposesFields = false
    }

    /// For requests that no page of another origin has sent: caches must not answer such a page with their responses.
    package static let unlisted = CrossOriginGrant()

    private static let vary = ProblemAnswer.Field(name: "Vary", value: "Origin")

    private static func lines(_ fields: [ProblemAnswer.Field]) -> [UInt8] {
        Array(fields.map { "\($0.name): \($0.value)\r\n" }.joined().utf8)
    }
}
