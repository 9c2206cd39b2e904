package import GatewayHTTP

/// Which request an engine asks about, written as a head of HTTP/1.1.
///
/// ``RequestHeadDecoder`` reads that head. So a request that it refuses is refused here too, and the authorizer judges it by the rules of
/// any other request.
package struct OriginalRequest: Sendable {
    /// Why the engine's request does not say which request it asks about.
    package enum Fault: Error, Hashable, Sendable {
        case missing(String)
        case duplicate(String)
        case malformed(String)

        package var problem: GatewayProblem {
            switch self {
            case .missing(let field):
                GatewayProblem(.requestRefused, "The engine did not send \(field), which its contract requires.")
            case .duplicate(let field):
                GatewayProblem(.requestRefused, "The engine sent \(field) more than once.")
            case .malformed(let field):
                GatewayProblem(.requestRefused, "The engine sent a value of \(field) that is not valid.")
            }
        }
    }

    /// The whole head, with the empty line that ends it.
    package private(set) var bytes: [UInt8] = []
    /// How the client reached the engine. nil where the contract does not say so.
    package private(set) var scheme: Origin.Scheme?
    /// The name of the route that the engine has chosen (``EnginePlan/routeField``); empty where it does not say so.
    package private(set) var route: [UInt8] = []
    private let contract: EnginePlan.Contract
    private let fields: ContractFields
    private let pathPrefix: [UInt8]

    package init(_ plan: EnginePlan) {
        contract = plan.contract
        fields = ContractFields(plan.contract)
        pathPrefix = Array(plan.pathPrefix.utf8)
        bytes.reserveCapacity(1024)
    }

    /// Takes the request of which this engine's request tells. Keeps its memory for the next one.
    package mutating func read(_ head: borrowing RequestHead, _ source: borrowing Span<UInt8>) throws(Fault) {
        begin()
        let named = named(head, source)
        if let chosen = try named.route.value(EnginePlan.routeField) { _ = takeRoute(chosen, source) }
        if case .envoy = contract {
            try writeOwn(head, source)
        } else {
            try writeNamed(named, source)
        }
        for index in head.section.fields.indices {
            let field = head.section.fields[index]
            let isClients =
                index < Named.marked ? named.isClients(index) : part(field.kind, field.name, source) == .clients
            if isClients { append(source, field.line) }
        }
        end()
    }

    mutating func begin() {
        bytes.removeAll(keepingCapacity: true)
        scheme = nil
        route.removeAll(keepingCapacity: true)
    }

    mutating func end() { append("\r\n") }

    /// The engine's own request line and `Host`.
    private mutating func writeOwn(_ head: borrowing RequestHead, _ source: borrowing Span<UInt8>) throws(Fault) {
        guard head.form == .origin || head.form == .asterisk else { throw .malformed("the request target") }
        var path = head.path
        if !pathPrefix.isEmpty {
            let rest = path.lowerBound + pathPrefix.count
            guard rest < path.upperBound, source.array(path.lowerBound..<rest) == pathPrefix, source[rest] == 0x2F
            else {
                throw .malformed("the request target (path_prefix)")
            }
            path = rest..<path.upperBound
        }
        append(source, head.method)
        append(" ")
        append(source, path.lowerBound..<head.query.upperBound)
        append(" HTTP/1.1\r\nHost: ")
        append(source, head.host)
        append("\r\n")
    }

    /// What the fields of the contract name.
    private mutating func writeNamed(_ named: Named, _ source: borrowing Span<UInt8>) throws(Fault) {
        let method = try named.method.required(fields.method.name)
        let target = try named.target.required(fields.target.name)
        let host = try named.host.required(fields.host.name)
        try takeScheme(try named.scheme.value(fields.scheme.name), source, named: fields.scheme.name)
        try writeLine(method, target, host, source, named: (fields.method.name, fields.target.name, fields.host.name))
    }

    /// - Parameter names: For a fault.
    mutating func writeLine(
        _ method: Range<Int>,
        _ target: Range<Int>,
        _ host: Range<Int>,
        _ source: borrowing Span<UInt8>,
        named names: (method: String, target: String, host: String)
    ) throws(Fault) {
        // A space would end the method or the target, a control byte the line.
        for index in method where !source[index].isTokenByte { throw .malformed(names.method) }
        guard source[target.lowerBound] == 0x2F || target.count == 1 && source[target.lowerBound] == 0x2A else {
            throw .malformed(names.target)
        }
        for index in target where source[index] <= 0x20 { throw .malformed(names.target) }
        for index in host where source[index] <= 0x20 { throw .malformed(names.host) }
        append(source, method)
        append(" ")
        append(source, target)
        append(" HTTP/1.1\r\nHost: ")
        append(source, host)
        append("\r\n")
    }

    /// - Parameters:
    ///   - value: nil or empty where it is not said.
    ///   - name: For a fault.
    mutating func takeScheme(
        _ value: Range<Int>?,
        _ source: borrowing Span<UInt8>,
        named name: String
    ) throws(Fault) {
        guard let value, !value.isEmpty else { return }
        // A WebSocket has a scheme of its own, which Traefik sends.
        if source.equalsLowercased(value, "https") || source.equalsLowercased(value, "wss") {
            scheme = .https
        } else if source.equalsLowercased(value, "http") || source.equalsLowercased(value, "ws") {
            scheme = .http
        } else {
            throw .malformed(name)
        }
    }

    /// A field that stands in the engine's request once, or not at all.
    private struct Once {
        private var found: Range<Int>?
        private var isRepeated = false

        mutating func note(_ value: Range<Int>) {
            isRepeated = found != nil
            found = found ?? value
        }

        func value(_ name: String) throws(Fault) -> Range<Int>? {
            guard !isRepeated else { throw .duplicate(name) }
            return found
        }

        func required(_ name: String) throws(Fault) -> Range<Int> {
            guard let value = try value(name), !value.isEmpty else { throw .missing(name) }
            return value
        }
    }

    /// What an engine's request says in fields, found in one pass.
    private struct Named {
        /// Fields that have a mark.
        static let marked = 64

        var route = Once()
        var method = Once()
        var target = Once()
        var host = Once()
        var scheme = Once()
        private var clients: UInt64 = 0

        /// - Parameter index: Below ``marked``.
        func isClients(_ index: Int) -> Bool { clients >> UInt64(index) & 1 == 1 }

        mutating func markClients(_ index: Int) {
            if index < Self.marked { clients |= 1 << UInt64(index) }
        }
    }

    private func named(_ head: borrowing RequestHead, _ source: borrowing Span<UInt8>) -> Named {
        var named = Named()
        for index in head.section.fields.indices {
            let field = head.section.fields[index]
            switch part(field.kind, field.name, source) {
            case .clients: named.markClients(index)
            case .engines: break
            case .route: named.route.note(field.value)
            case .role(.method): named.method.note(field.value)
            case .role(.target): named.target.note(field.value)
            case .role(.host): named.host.note(field.value)
            case .role(.scheme): named.scheme.note(field.value)
            }
        }
        return named
    }

    // MARK: Fields

    /// What a field of an engine's request is for.
    private enum Part: Equatable {
        /// It belongs to the request that the engine asks about.
        case clients
        /// It belongs to the engine's own request.
        case engines
        /// ``EnginePlan/routeField``
        case route
        case role(ContractFields.Role)
    }

    private func part(_ kind: FieldKind, _ name: Range<Int>, _ source: borrowing Span<UInt8>) -> Part {
        switch kind {
        case .host, .connection, .contentLength, .transferEncoding, .expect, .upgrade, .te, .keepAlive,
            .proxyConnection, .http2Settings:
            return .engines
        case .other, .forwarded:
            // All that are looked for begin with x-.
            guard name.count > 5, source[name.lowerBound] | 0x20 == 0x78 else { return .clients }
            if source.isToken(name.prefix(5), "x-gw-") {
                return source.isToken(name, "x-gw-route") ? .route : .engines
            }
            // It has sent the request itself.
            if case .envoy = contract { return .clients }
            return fields.role(of: name, in: source).map { .role($0) } ?? .clients
        default: return .clients
        }
    }

    /// Adds a field that stands in no head.
    ///
    /// - Returns: Whether it can be one.
    mutating func addField(_ name: Range<Int>, _ value: Range<Int>, _ source: borrowing Span<UInt8>) -> Bool {
        for index in name where !source[index].isTokenByte { return false }
        for index in value where source[index] < 0x20 && source[index] != 0x09 || source[index] == 0x7F { return false }
        guard part(FieldKind.classify(source, name), name, source) == .clients else { return true }
        append(source, name)
        append(": ")
        append(source, value)
        append("\r\n")
        return true
    }

    /// - Returns: false where another one was named before.
    mutating func takeRoute(_ name: Range<Int>, _ source: borrowing Span<UInt8>) -> Bool {
        guard route.isEmpty else { return false }
        for index in name { route.append(source[index]) }
        return true
    }

    private mutating func append(_ source: borrowing Span<UInt8>, _ range: Range<Int>) {
        unsafe source.extracting(range).withUnsafeBufferPointer { unsafe bytes.append(contentsOf: $0) }
    }

    private mutating func append(_ text: StaticString) {
        text.withUTF8Buffer { unsafe bytes.append(contentsOf: $0) }
    }
}

/// Which fields of a request its answer depends on.
extension OriginalRequest {
    /// The fields of a client's request that a decision can depend on, whatever the route: what a cache of answers must have in its key.
    ///
    /// A route adds those that its credential goes into, where clients may present a token, and the one that names a subject.
    package static let judgedFields =
        ["Authorization", "Proxy-Authorization", "Origin", "Sec-Fetch-Site", "Access-Control-Request-Method", "Via"]
        + MethodOverride.fieldNames.map { String(decoding: $0, as: UTF8.self) }

    /// The fields of an engine's request that the answer depends on, beside those that a route adds.
    static func varyingFields(of contract: EnginePlan.Contract) -> [String] {
        let fields = ContractFields(contract)
        let named = [fields.method, fields.target, fields.host, fields.scheme].map(\.name)
        return (contract == .envoy ? [] : named) + [EnginePlan.routeField, EnginePlan.rejectedGenerationField]
            + judgedFields
    }
}

/// The fields in which an engine names the request that it asks about.
struct ContractFields: Sendable {
    struct Field: Sendable {
        let name: String
        let lowercased: StaticString
    }

    let method: Field
    let target: Field
    let host: Field
    let scheme: Field

    init(_ contract: EnginePlan.Contract) {
        switch contract {
        // Envoy sends the request itself and no such fields. It has those of nginx here, and they are not read.
        case .nginx, .envoy:
            method = Field(name: "X-Original-Method", lowercased: "x-original-method")
            target = Field(name: "X-Original-URI", lowercased: "x-original-uri")
            host = Field(name: "X-Original-Host", lowercased: "x-original-host")
            scheme = Field(name: "X-Original-Proto", lowercased: "x-original-proto")
        case .forwardAuth:
            method = Field(name: "X-Forwarded-Method", lowercased: "x-forwarded-method")
            target = Field(name: "X-Forwarded-Uri", lowercased: "x-forwarded-uri")
            host = Field(name: "X-Forwarded-Host", lowercased: "x-forwarded-host")
            scheme = Field(name: "X-Forwarded-Proto", lowercased: "x-forwarded-proto")
        }
    }

    /// What a field of the contract says of the request.
    enum Role {
        case method
        case target
        case host
        case scheme
    }

    /// - Returns: nil for a field that is none of the contract.
    func role(of name: Range<Int>, in bytes: borrowing Span<UInt8>) -> Role? {
        // From x-original-uri to x-forwarded-method. Most fields have shorter names.
        guard (14...18).contains(name.count) else { return nil }
        if bytes.isToken(name, method.lowercased) { return .method }
        if bytes.isToken(name, target.lowercased) { return .target }
        if bytes.isToken(name, host.lowercased) { return .host }
        return bytes.isToken(name, scheme.lowercased) ? .scheme : nil
    }
}
