import GatewayHTTP

/// Which calls to an MCP server a rule of `allow` permits (`tools`).
///
/// A request with a body, and any POST, is a message or a batch of them, and passes if all of them do. Handshakes, lists, notifications
/// and responses pass; other methods do if the rule names them. GET and DELETE, which carry no message, pass.
package struct ToolRule: Hashable, Sendable {
    /// Where a call is read from (`tools_from`).
    package enum Source: String, CaseIterable, Sendable {
        /// The body is collected and read. ``methodField`` and ``nameField``, if they are there, must say the same.
        case body
        /// Those fields alone, which the server has to compare with the body.
        case header
    }

    /// An exact name, or with `*` at its end all that begin like this.
    package struct NamePattern: Hashable, Sendable {
        package let text: String

        /// nil for an empty text, and for one with a `*` elsewhere.
        package init?(_ text: String) {
            guard !text.isEmpty, !text.dropLast().contains("*") else { return nil }
            self.text = text
        }

        package func matches(_ name: [UInt8]) -> Bool {
            guard text.utf8.last == UInt8(ascii: "*") else { return name.elementsEqual(text.utf8) }
            return name.starts(with: text.utf8.dropLast())
        }
    }

    package var tools: [NamePattern]
    /// Methods that pass besides those of ``usualMethods``.
    package var methods: [NamePattern] = []
    package var source = Source.body

    package init(tools: [NamePattern], methods: [NamePattern] = [], source: Source = .body) {
        self.tools = tools
        self.methods = methods
        self.source = source
    }

    /// `tools search, read_*`
    package var description: String {
        let names = tools.isEmpty ? "no tools" : "tools \(tools.map(\.text).joined(separator: ", "))"
        let more = methods.isEmpty ? "" : ", mcp_methods \(methods.map(\.text).joined(separator: ", "))"
        return source == .body ? names + more : "\(names)\(more), tools_from header"
    }

    /// What is checked, and what is trusted.
    ///
    /// - Parameter mayCall: The request may carry a call.
    package func explanation(mayCall: Bool) -> String {
        guard mayCall else { return "the request carries no call; lists in a stream show only these tools" }
        let lists = "tools/list shows only these tools"
        return switch source {
        case .body: "the calls in the body are checked once it has been received, and \(lists)"
        case .header:
            "the calls were checked by Mcp-Method and Mcp-Name, which the server has to compare with the body; \(lists)"
        }
    }

    /// Whether this rule allows every call that `old` allows.
    ///
    /// - Parameter old: nil allows every call.
    func takesAll(of old: ToolRule?) -> Bool {
        guard let old else { return false }
        return Set(old.tools).isSubset(of: tools) && Set(old.methods).isSubset(of: methods)
    }

    /// They show what there is, and change nothing.
    package static let usualMethods = [
        "initialize", "ping", "prompts/list", "resources/list", "resources/templates/list", "server/discover",
        "tools/list",
    ]
    private static let notifications = "notifications/"

    /// Whether a message passes that no rule names. With an id, it is a request and not a notification (JSON-RPC 2.0 section 4.1).
    static func isUsual(_ message: RPCMessage) -> Bool {
        guard let method = message.method else { return true }
        if method.starts(with: notifications.utf8) { return message.id == nil }
        return usualMethods.contains { method.elementsEqual($0.utf8) }
    }

    private static let call = "tools/call"

    /// Whether the rule itself names what the message calls.
    func names(_ message: RPCMessage) -> Bool {
        guard let method = message.method, !Self.isUsual(message) else { return false }
        guard method.elementsEqual(Self.call.utf8) else { return methods.contains { $0.matches(method) } }
        return message.name.map { name in tools.contains { $0.matches(name) } } ?? false
    }

    /// A rule that takes what each of these takes. They read calls from the same place.
    static func joined(_ rules: [ToolRule]) -> ToolRule? {
        guard var joined = rules.first else { return nil }
        for rule in rules.dropFirst() {
            joined.tools += rule.tools
            joined.methods += rule.methods
        }
        return joined
    }

    /// A method that lists tools, or that some server may take for `tools/list` if a rule lets it pass (`mcp_methods`).
    private static func lists(_ method: [UInt8]) -> Bool {
        !method.elementsEqual(call.utf8) && method.map(\.asciiLowercased).starts(with: "tools/".utf8)
    }

    func allows(tool name: [UInt8]) -> Bool { tools.contains { $0.matches(name) } }

    // MARK: Fields (MCP of 2026-07-28, basic/transports/streamable-http, "Request Metadata")

    static let methodField = Array("mcp-method".utf8)
    static let nameField = Array("mcp-name".utf8)
    private static let versionField = Array("mcp-protocol-version".utf8)
    private static let typeField = Array("content-type".utf8)
    private static let codingField = Array("content-encoding".utf8)
    /// The first version whose servers compare the fields with the body.
    private static let firstVersion = "2026-07-28"

    /// Which member `Mcp-Name` repeats.
    private enum Named: Hashable {
        case name
        case uri

        init?(_ method: [UInt8]) {
            if method.elementsEqual("tools/call".utf8) || method.elementsEqual("prompts/get".utf8) {
                self = .name
            } else if ["resources/read", "resources/subscribe", "resources/unsubscribe"]
                .contains(where: { method.elementsEqual($0.utf8) })
            {
                self = .uri
            } else {
                return nil
            }
        }
    }

    /// Whether the request may carry a call.
    static func mayCall(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        if case .none = head.framing { head.usualMethod(bytes) == .post } else { true }
    }

    // MARK: Head

    /// Why the request is refused, whatever its body says.
    ///
    /// - Parameter route: Its name, for the operator.
    func refusal(
        ofHead head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        route: String
    ) -> GatewayProblem? {
        // Messages of a WebSocket are not read.
        guard !head.wantsUpgrade else {
            return GatewayProblem(
                .routeForbidden,
                "The route \(route) has a rule for tools, and the messages of a WebSocket are not read."
            )
        }
        guard Self.mayCall(head, bytes) else { return nil }
        switch source {
        case .body:
            return Self.formFault(head, bytes).map { Self.invalid("The body \($0).", code: RPCRefusal.invalidRequest) }
        case .header: return refusal(ofFields: head, bytes, route: route)
        }
    }

    /// What keeps the body from being read as every server reads it.
    private static func formFault(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> String? {
        let codings = values(of: codingField, head, bytes)
        guard codings.allSatisfy({ String(decoding: $0, as: UTF8.self).lowercased() == "identity" }) else {
            return "has a Content-Encoding, so the gateway cannot read the call"
        }
        let types = values(of: typeField, head, bytes)
        guard types.count == 1 else { return "needs one Content-Type: application/json" }
        let parts = String(decoding: types[0], as: UTF8.self).lowercased().split(separator: ";")
            .map { $0.filter { $0 != " " && $0 != "\t" && $0 != "\"" } }
        guard parts.first == "application/json" else { return "is not application/json" }
        let charsets = parts.dropFirst().filter { $0.hasPrefix("charset") }
        return charsets.allSatisfy { $0 == "charset=utf-8" } ? nil : "has another charset than UTF-8"
    }

    private func refusal(
        ofFields head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        route: String
    ) -> GatewayProblem? {
        let versions = Self.values(of: Self.versionField, head, bytes)
        guard versions.count == 1, Self.isVersion(versions[0]) else {
            return Self.invalid(
                "tools_from: header needs MCP-Protocol-Version \(Self.firstVersion) or later: servers of earlier versions do not compare"
                    + " the fields with the body.",
                code: RPCRefusal.headerMismatch
            )
        }
        let methods = Self.values(of: Self.methodField, head, bytes)
        let names = Self.values(of: Self.nameField, head, bytes)
        guard methods.count == 1, names.count <= 1 else {
            return Self.invalid(
                "The request needs one Mcp-Method, and at most one Mcp-Name.",
                code: RPCRefusal.headerMismatch
            )
        }
        let name = names.first.flatMap(Self.decoded)
        guard names.isEmpty ? !methods[0].elementsEqual(Self.call.utf8) : name != nil else {
            return Self.invalid("Mcp-Name is missing or malformed.", code: RPCRefusal.headerMismatch)
        }
        guard let failure = failure(of: RPCMessage(method: methods[0], name: name), route: route) else { return nil }
        var problem = failure.problem
        // The id is in the body, which is not read.
        problem.rpc = RPCRefusal(.init(id: nil, code: failure.code, message: failure.message), status: 403)
        return problem
    }

    /// Whether the text is a date (YYYY-MM-DD) from ``firstVersion`` on.
    private static func isVersion(_ value: [UInt8]) -> Bool {
        let isDate =
            value.count == 10
            && value.indices.allSatisfy { index in
                index == 4 || index == 7 ? value[index] == UInt8(ascii: "-") : value[index].isDigit
            }
        return isDate && !value.lexicographicallyPrecedes(firstVersion.utf8)
    }

    // MARK: Body

    /// Why the whole request is refused; nil if every message in it passes.
    ///
    /// - Parameter head: The fields that the body is compared with.
    func refusal(
        ofBody body: borrowing Span<UInt8>,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        route: String
    ) -> GatewayProblem? {
        let read: RPCBody
        do throws(RPCFault) {
            read = try RPCBody(body)
        } catch {
            return Self.invalid("The body \(error.rawValue).", code: error.code)
        }
        if let mismatch = Self.mismatch(of: read, head, bytes) {
            return Self.invalid(
                "Header mismatch: \(mismatch)",
                id: read.isBatch ? nil : read.messages[0].id,
                code: RPCRefusal.headerMismatch
            )
        }
        var refused: GatewayProblem?
        var failures: [RPCRefusal.Failure] = []
        for message in read.messages {
            let failure = failure(of: message, route: route)
            refused = refused ?? failure?.problem
            guard message.method != nil, let id = message.id else { continue }
            failures.append(
                RPCRefusal.Failure(
                    id: id,
                    code: failure?.code ?? RPCRefusal.invalidRequest,
                    message: failure?.message ?? "Not sent: the gateway refused another message of the batch."
                )
            )
        }
        guard var refused else { return nil }
        // With any other status, some clients end the session instead of showing the error. A notification has no one to show it to.
        if failures.isEmpty {
            refused.rpc = RPCRefusal(
                .init(id: nil, code: RPCRefusal.invalidRequest, message: Self.noResponse),
                status: 400
            )
        } else {
            refused.rpc = read.isBatch ? RPCRefusal(failures, status: 200) : RPCRefusal(failures[0], status: 200)
        }
        return refused
    }

    private static let noResponse = "The gateway does not allow this notification."

    private struct Failure {
        let problem: GatewayProblem
        let code: Int
        let message: String
    }

    private func failure(of message: RPCMessage, route: String) -> Failure? {
        guard let method = message.method else { return nil }
        guard method.elementsEqual(Self.call.utf8) else {
            let passes = Self.isUsual(message) || methods.contains { $0.matches(method) }
            return passes ? nil : Self.failure("the method", method, "mcp_methods", RPCRefusal.methodNotFound, route)
        }
        guard let name = message.name else {
            return Failure(
                problem: GatewayProblem(.routeForbidden, "A call of tools/call names no tool."),
                code: RPCRefusal.invalidParameters,
                message: "The call names no tool."
            )
        }
        return allows(tool: name)
            ? nil : Self.failure("the tool", name, "tools", RPCRefusal.invalidParameters, route)
    }

    /// The client is not told the name of the route, which it may not know.
    private static func failure(
        _ what: String,
        _ name: [UInt8],
        _ key: String,
        _ code: Int,
        _ route: String
    ) -> Failure {
        let shown = "\(what) \"\(String(decoding: name, as: UTF8.self).singleLine(limit: 128))\""
        return Failure(
            problem: GatewayProblem(.routeForbidden, "The route \(route) does not allow \(shown) (allow, \(key))."),
            code: code,
            message:
                "The gateway does not allow \(shown). Trying again does not help: its operator would have to allow it."
        )
    }

    /// What keeps the calls in a body from being read is said as JSON-RPC, too. The id is not known.
    ///
    /// - Parameter contentHasBegun: Some of the body has come.
    static func inRPC(_ problem: GatewayProblem, contentHasBegun: Bool) -> GatewayProblem {
        guard problem.rpc == nil else { return problem }
        return switch problem.kind {
        case .contentTooLarge, .requestRefused, .requestTimeout: problem.inRPC(code: RPCRefusal.invalidRequest)
        case .clientLimitReached where contentHasBegun: problem.inRPC(code: RPCRefusal.invalidRequest)
        default: problem
        }
    }

    /// A request that cannot be judged.
    private static func invalid(_ detail: String, id: String? = nil, code: Int) -> GatewayProblem {
        GatewayProblem(.requestRefused, detail).inRPC(id: id, code: code)
    }

    // MARK: Lists

    /// The requests for lists of tools that a response may answer; nil if it may answer none.
    ///
    /// - Parameter body: Empty if it was not read.
    func listRequests(
        in head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        body: borrowing Span<UInt8>
    ) -> ToolListFilter.Requests? {
        // All are shown, in lists of any length.
        guard !tools.contains(where: { $0.text == "*" }) else { return nil }
        if Self.mayCall(head, bytes) {
            switch source {
            case .header:
                let methods = Self.values(of: Self.methodField, head, bytes)
                if methods.contains(where: Self.lists) { return ToolListFilter.Requests() }
            case .body:
                // It was read before.
                guard let read = try? RPCBody(body) else { return ToolListFilter.Requests() }
                let lists = read.messages.filter { $0.method.map(Self.lists) ?? false }
                if !lists.isEmpty {
                    return ToolListFilter.Requests(ids: lists.compactMap(\.id), isBatch: read.isBatch)
                }
            }
        }
        // A client resumes a stream with GET (MCP of 2025-11-25, basic/transports, "Resumability and Redelivery").
        let isPost = head.usualMethod(bytes) == .post
        return isPost ? nil : ToolListFilter.Requests(onlyInStream: true)
    }

    // MARK: Fields and body

    /// In what the fields say something else than the body.
    private static func mismatch(
        of body: RPCBody,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> String? {
        let methods = values(of: methodField, head, bytes)
        let names = values(of: nameField, head, bytes)
        guard !methods.isEmpty || !names.isEmpty else { return nil }
        guard methods.count <= 1, names.count <= 1 else { return "Mcp-Method or Mcp-Name is there more than once." }
        guard !body.isBatch else { return "a batch has no single Mcp-Method or Mcp-Name." }
        let message = body.messages[0]
        if let method = methods.first, method != message.method {
            return "Mcp-Method does not match the method in the body."
        }
        guard let name = names.first, let named = message.method.flatMap(Named.init) else { return nil }
        guard let name = decoded(name), name == (named == .name ? message.name : message.uri) else {
            return "Mcp-Name does not match the name in the body."
        }
        return nil
    }

    /// Servers that read `_` as `-` take either spelling for the field.
    private static func values(
        of name: [UInt8],
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> [[UInt8]] {
        var values: [[UInt8]] = []
        for index in head.section.fields.indices where bytes.equalsDashed(head.section.fields[index].name, name) {
            values.append(bytes.array(head.section.fields[index].value))
        }
        return values
    }

    private static let encodedPrefix = Array("=?base64?".utf8)
    private static let encodedSuffix = Array("?=".utf8)

    /// What `Mcp-Name` stands for ("Value Encoding"); nil if its encoding is broken, or could have been written differently.
    private static func decoded(_ value: [UInt8]) -> [UInt8]? {
        guard value.starts(with: encodedPrefix), value.count >= encodedPrefix.count + encodedSuffix.count,
            value.suffix(encodedSuffix.count).elementsEqual(encodedSuffix)
        else { return value }
        let text = String(decoding: value.dropFirst(encodedPrefix.count).dropLast(encodedSuffix.count), as: UTF8.self)
        guard let name = Base64.decode(text), Base64.encode(name) == text else { return nil }
        return name
    }
}
