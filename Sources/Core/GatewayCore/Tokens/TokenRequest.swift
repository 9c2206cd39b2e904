/// One request to an authority, described as a value; a ``TokenEndpoint`` sends it.
package struct TokenRequest: Hashable, Sendable {
    package enum Method: String, CaseIterable, Sendable {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
        case patch = "PATCH"
        case delete = "DELETE"
    }

    package enum Body: Hashable, Sendable {
        case none
        /// `application/x-www-form-urlencoded`, strictly encoded, in this order.
        case form([Parameter])
        /// As it is, under this `Content-Type`.
        case content(type: String, Secret)
    }

    package struct Parameter: Hashable, Sendable {
        package let name: String
        package let value: Secret

        package init(_ name: String, _ value: Secret) {
            self.name = name
            self.value = value
        }

        package init(_ name: String, _ value: String) { self.init(name, Secret(value)) }
    }

    /// A parameter of the form whose value is in a file.
    package struct FileParameter: Hashable, Sendable {
        package let name: String
        /// Absolute.
        package let path: String

        package init(_ name: String, path: String) {
            self.name = name
            self.path = path
        }
    }

    package var method: Method
    package var url: AuthorityURL
    package var fields: [Injection.Field]
    package var body: Body
    /// A certificate of our own; nil shows none.
    package var tls: ClientTLS?
    /// Parameters of the form that are read from files when the request is sent: others replace those files.
    package var fileParameters: [FileParameter] = []

    package init(method: Method = .post, url: AuthorityURL, fields: [Injection.Field] = [], body: Body = .none) {
        self.method = method
        self.url = url
        self.fields = fields
        self.body = body
    }
}

extension TokenRequest {
    /// The request with what the files hold.
    ///
    /// - Parameter content: What the file at a path holds, or why it cannot be read.
    package func filled(
        from content: (String) -> Result<[UInt8], TokenTransportFailure.UnreadableFile>
    ) throws(TokenTransportFailure) -> TokenRequest {
        guard case .form(var form) = body else { return self }
        for parameter in fileParameters {
            do throws(TokenTransportFailure.UnreadableFile) {
                let value = try Self.value(in: try content(parameter.path).get())
                form.append(Parameter(parameter.name, value))
            } catch {
                throw TokenTransportFailure(unreadable: parameter.path, error)
            }
        }
        var request = self
        request.body = .form(form)
        request.fileParameters = []
        return request
    }

    /// One newline at the end belongs to the file.
    private static func value(in bytes: [UInt8]) throws(TokenTransportFailure.UnreadableFile) -> Secret {
        var bytes = bytes
        if bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
        if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        guard !bytes.isEmpty, bytes.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw TokenTransportFailure.UnreadableFile("it does not hold one token in visible ASCII")
        }
        return Secret(String(decoding: bytes, as: UTF8.self))
    }
}

/// What came back, whatever its status.
package struct TokenReply: Hashable, Sendable {
    /// 0 for what a program printed.
    package let status: Int
    /// In order of arrival; names as received.
    package let fields: [Field]
    /// At most 1 MiB; a longer answer is a ``TokenTransportFailure``.
    package let body: [UInt8]
    /// The authority's clock minus ours; nil when it was not measured. See ``ClockSkew``.
    package var clockSkewSeconds: Int?

    package struct Field: Hashable, Sendable {
        package let name: String
        package let value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    package init(status: Int, fields: [Field] = [], body: [UInt8] = []) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// What a program printed.
    package init(output: [UInt8]) { self.init(status: 0, body: output) }

    /// nil for what a program printed.
    package var httpStatus: Int? { status == 0 ? nil : status }

    package func field(_ name: String) -> String? {
        let wanted = name.lowercased()
        return fields.first { $0.name.lowercased() == wanted }?.value
    }
}

/// Why no answer came.
package struct TokenTransportFailure: Error, Hashable, Sendable {
    package enum Reason: String, Sendable {
        case nameNotResolved = "name_not_resolved"
        case connectionRefused = "connection_refused"
        case connectTimeout = "connect_timeout"
        case tlsFailed = "tls_failed"
        case responseTimeout = "response_timeout"
        case connectionLost = "connection_lost"
        case answerTooLarge = "answer_too_large"
        case invalidAnswer = "invalid_answer"
        /// A field or the URL cannot be written as HTTP; repeating it does not help.
        case unsendable = "unsendable_request"
        /// A file that is part of the request cannot be read now; it may be there again later.
        case unreadableFile = "unreadable_file"

        /// The request was not sent, because of something on this machine.
        package var isLocal: Bool { self == .unsendable || self == .unreadableFile }
    }

    /// Why a file cannot be read, without what is in it; follows its path.
    package struct UnreadableFile: Error, Hashable, Sendable {
        package let message: String
        package init(_ message: String) { self.message = message }
    }

    package let reason: Reason
    /// The request may have been acted upon although no answer came: a refresh token may be spent.
    package let mayHaveBeenProcessed: Bool
    /// Which file cannot be read, and why; nil for any other reason.
    package let file: String?

    package init(_ reason: Reason, mayHaveBeenProcessed: Bool) {
        self.reason = reason
        self.mayHaveBeenProcessed = mayHaveBeenProcessed
        file = nil
    }

    package init(unreadable path: String, _ error: UnreadableFile) {
        reason = .unreadableFile
        mayHaveBeenProcessed = false
        file = "\(path): \(error.message)"
    }
}
