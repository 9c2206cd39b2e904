import GatewayHTTP
import GatewayTokens

/// What one route asks of a request before it may pass.
///
/// A class, so that looking at it copies one reference and not all that a plan holds.
final class RouteGate: Sendable {
    // First what every request asks, so that it lies together.

    let clients: [String]?
    /// NTLM and the like are refused in what the route would forward.
    private let refusesConnectionAuth: Bool
    /// Where each request says whose token it goes with.
    let subject: SubjectRule?
    /// nil for the usual places alone: each field of a request is then compared with nothing else.
    let places: ClientAuthenticator.Places?
    let originRule: OriginRule

    let name: String
    let upstream: Origin
    /// The engines that are handed the credential.
    let engines: [String]
    private let allow: [RoutePlan.Allow]
    /// The usual methods that each rule of ``allow`` takes, a bit for each: most requests need no comparison of texts.
    private let usualMethods: [UInt8]
    /// What is asked about calls in place of the rule with this number: rules with the same methods and path name tools together, so
    /// that some of them can need an approval.
    private let tools: [ToolRule?]
    /// Some rule of ``allow`` names tools.
    private let namesTools: Bool
    /// Some rule of ``allow`` has requests wait for an approval.
    private let needsApproval: Bool
    let strictness: CanonicalPath.Strictness
    /// The endpoints of its credential that are reached through it.
    private let endpoints: [AuthorityEndpoint]
    /// The credential of the route, if its requests need a phantom.
    let captured: CapturedCredential?
    private let capturePoints: [CapturePoint]
    private let prefix: PathPrefix
    /// Names of fields that only the route may set, in lower case.
    let ownedNames: [[UInt8]]
    /// The path of the upstream that the route leads to; empty for the whole of it.
    private let base: [UInt8]
    /// Nothing is asked but that every reading of the path leads to this route.
    var isPlain: Bool { clients == nil && allow.isEmpty && endpoints.isEmpty && capturePoints.isEmpty }

    /// - Parameter access: Has the origins that count for routes without their own.
    init(_ known: RequestAuthorizer.Route, _ access: AccessPlan) {
        let route = known.plan
        places = known.places.isEmpty ? nil : known.places
        subject = known.selection.map(SubjectRule.init)
        originRule = OriginRule(
            access.allowedOrigins(on: route),
            allowsCredentials: route.cookies == .pass,
            isOfRoute: route.allowedOrigins != nil
        )
        name = route.name
        upstream = route.upstream
        clients = route.clients
        engines = route.authz
        allow = route.allow
        usualMethods = route.allow.map { rule in
            UsualMethod.allCases.reduce(0) { $0 | (rule.takes($1.name) ? $1.rawValue : 0) }
        }
        tools = route.allow.map { rule in
            let same = route.allow.filter {
                $0.methods == rule.methods && $0.path == rule.path && $0.tools?.source == rule.tools?.source
            }
            return rule.tools == nil ? nil : ToolRule.joined(same.compactMap(\.tools))
        }
        namesTools = route.allow.contains { $0.tools != nil }
        needsApproval = route.allow.contains { $0.needsApproval }
        endpoints = route.endpoints
        captured = known.captured
        capturePoints = known.capturePoints
        let isOpen = route.credential == nil && known.capturePoints.isEmpty
        strictness = route.allow.isEmpty ? (isOpen ? .open : .credentialed) : .ruled
        refusesConnectionAuth = route.forwardsAuthorization && !route.allowsConnectionAuth
        prefix = PathPrefix(route)
        ownedNames = known.ownedNames
        base = Array(route.upstreamPath.utf8)
    }

    /// The upstream has paths that this route does not lead to.
    var guardsPaths: Bool { !allow.isEmpty || !base.isEmpty || !endpoints.isEmpty || !capturePoints.isEmpty }

    /// Why the route does not forward these credentials of the client; nil where it does.
    func forbidConnectionAuth(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> GatewayProblem? {
        guard refusesConnectionAuth, ConnectionAuthentication.isUsed(by: head, bytes) else { return nil }
        return GatewayProblem(
            .routeForbidden,
            "NTLM, Negotiate and Kerberos authenticate a whole connection, which other clients share."
                + " To allow them here, set routes.\(name).connection_auth: true."
        )
    }

    /// Whether the path is judged as it is where the host of the upstream finds the route.
    func readsAlike(_ head: borrowing RequestHead, _ match: RouteTable.Match) -> Bool {
        head.forwardedPath(match, without: prefix) == head.forwardedPath(.upstream(match.route), without: prefix)
    }

    /// Why the route does not take this method and path; nil where it does.
    func forbid(
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ trace: inout AuthorizationTrace?
    ) -> GatewayProblem? {
        let path = head.forwardedPath(match, without: prefix)
        if !allow.isEmpty {
            if let problem = MethodOverride.refusal(head, bytes, route: name) {
                trace?.add(.methodOverrideRefused)
                return problem
            }
            // `*` is no path, and no rule is about it.
            guard !(path.isEmpty && head.asksForServer(bytes)), let rule = rule(for: path, head, bytes) else {
                trace?.add(.notAllowed)
                if trace != nil { trace?.ruleMisses = misses(of: path, head, bytes) }
                let hint = allowsDecoded(path, head, bytes) ? " \(Self.encodedSlashes)" : ""
                return GatewayProblem(.routeForbidden, "The route \(name) does not allow this method and path.\(hint)")
            }
            trace?.add(.allowedByRule(number: rule + 1))
            if namesTools, let number = ruleWithTools(rule, bytes, path) {
                if let problem = tools[number]?.refusal(ofHead: head, bytes, route: name) {
                    trace?.add(.toolRefused)
                    return problem
                }
                trace?.add(.toolsChecked(byRule: number + 1, mayCall: ToolRule.mayCall(head, bytes)))
            }
            if needsApproval, let problem = refusalIfNotApprovable(match, head, bytes) {
                trace?.add(.approvalImpossible)
                return problem
            }
            if needsApproval, trace != nil, approval(match, head, bytes) != .nothing { trace?.add(.approvalNeeded) }
        }
        if allow.isEmpty, let endpoint = endpoints.first ?? capturePoints.first?.endpoint,
            let field = MethodOverride.pathField(in: head, bytes)
        {
            trace?.add(.methodOverrideRefused)
            let detail =
                "\(field) asks for another path; \(endpoint.path) belongs to the authorization server of route \(name)."
            return GatewayProblem(.routeForbidden, detail)
        }
        // The gateway answers in the place of the authority.
        for point in capturePoints where point.endpoint.isMeant(by: path, in: bytes) { return nil }
        // Only the gateway calls the authority, unless a rule names the path.
        for endpoint in endpoints where endpoint.isMeant(by: path, in: bytes) {
            guard rule(for: path, head, bytes, onlyExactly: true) == nil else { return nil }
            trace?.add(.authorityEndpointRefused)
            return forbidden(endpoint)
        }
        return nil
    }

    /// What the rules say about an admitted request beyond its head; nil on a route without such rules.
    func bodyRules(
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> BodyRules? {
        guard namesTools || needsApproval || !capturePoints.isEmpty else { return nil }
        let path = head.forwardedPath(match, without: prefix)
        var rule: ToolRule?
        if namesTools, let number = self.rule(for: path, head, bytes),
            let number = ruleWithTools(number, bytes, path)
        {
            rule = tools[number]
        }
        return BodyRules(
            tools: rule,
            capturePoint: capturePoint(path, bytes),
            approval: approval(match, head, bytes),
            approvedTools: approvedTools(for: path, head, bytes),
            mayCall: ToolRule.mayCall(head, bytes)
        )
    }

    /// Where the request is answered in the place of an authorization server; nil where it is not.
    func capturePoint(
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> CapturePoint? {
        capturePoints.isEmpty ? nil : capturePoint(head.forwardedPath(match, without: prefix), bytes)
    }

    /// - Parameter path: As it would be forwarded.
    private func capturePoint(_ path: Range<Int>, _ bytes: borrowing Span<UInt8>) -> CapturePoint? {
        for point in capturePoints where point.endpoint.isMeant(by: path, in: bytes) { return point }
        return nil
    }

    // MARK: Approval

    /// What of an admitted request an operator has to approve.
    private func approval(
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> ApprovalScope {
        guard needsApproval else { return .nothing }
        let scope = approval(of: head.methodName(bytes), bytes, head.forwardedPath(match, without: prefix))
        return scope == .calls && !ToolRule.mayCall(head, bytes) ? .nothing : scope
    }

    /// The tool rules whose calls need an approval.
    private func approvedTools(
        for path: Range<Int>,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> [ToolRule] {
        guard needsApproval else { return [] }
        let method = head.methodName(bytes)
        var rules: [ToolRule] = []
        for number in allow.indices where allow[number].needsApproval && allow[number].takes(method) {
            if let tools = allow[number].tools, allow[number].takes(bytes, path) { rules.append(tools) }
        }
        return rules
    }

    /// If several rules match a request, the strictest applies, so a wider rule cannot lift an approval.
    private func approval(
        of method: String,
        _ bytes: borrowing Span<UInt8>,
        _ path: Range<Int>,
        decodings: Int = 0
    ) -> ApprovalScope {
        var scope = ApprovalScope.nothing
        for number in allow.indices where allow[number].needsApproval && allow[number].takes(method) {
            guard allow[number].takes(bytes, path, decodings: decodings) else { continue }
            scope = max(scope, allow[number].tools == nil ? .everything : .calls)
        }
        return scope
    }

    /// Why the request cannot be approved, whatever its body is.
    private func refusalIfNotApprovable(
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> GatewayProblem? {
        guard head.wantsUpgrade || head.present.contains(.destination), approval(match, head, bytes) != .nothing else {
            return nil
        }
        return (head.wantsUpgrade ? ApprovalFailure.hasUpgrade : .hasDestination).problem
    }

    /// The rule that is asked about calls on a path: the one that allows the request, or else another one with tools for the path. So
    /// a wider rule lifts none, such as one for all paths and GET.
    private func ruleWithTools(
        _ number: Int,
        _ bytes: borrowing Span<UInt8>,
        _ path: Range<Int>,
        decodings: Int = 0
    ) -> Int? {
        if allow[number].tools != nil { return number }
        for other in allow.indices where allow[other].tools != nil {
            if allow[other].takes(bytes, path, decodings: decodings) { return other }
        }
        return nil
    }

    /// The first rule that allows the method and path.
    ///
    /// - Parameters:
    ///   - path: As it is forwarded; empty is the root.
    ///   - onlyExactly: A wildcard that covers the path does not name it.
    private func rule(
        for path: Range<Int>,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        onlyExactly: Bool = false
    ) -> Int? {
        let usual = head.usualMethod(bytes)
        // By index, and only what is asked of a rule: a rule as a whole would be copied.
        for number in allow.indices {
            if let usual {
                guard usualMethods[number] & usual.rawValue != 0 else { continue }
            } else {
                guard allow[number].takes(bytes.string(head.method)) else { continue }
            }
            if onlyExactly, !allow[number].path.isExact { continue }
            if path.isEmpty ? allow[number].path.matchesRoot : allow[number].path.matches(bytes, path) { return number }
        }
        return nil
    }

    // MARK: Readings of a path

    /// Whether the rule that allows the path as it was sent is also the first that allows the reading.
    ///
    /// - Parameter reading: It finds the same route.
    func selectsSameRule(
        for reading: PathReadings.Reading,
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> Bool {
        guard !allow.isEmpty else { return true }
        let path = head.forwardedPath(match, without: prefix)
        let method = head.methodName(bytes)
        let read = forwarded(of: reading, path, head)
        let first = allow.firstIndex { rule in
            rule.takes(method) && rule.takes(reading.path.span, read, decodings: reading.decodings)
        }
        guard let first, first == rule(for: path, head, bytes) else { return false }
        if needsApproval,
            approval(of: method, reading.path.span, read, decodings: reading.decodings)
                != approval(of: method, bytes, path)
        {
            return false
        }
        return !namesTools
            || ruleWithTools(first, reading.path.span, read, decodings: reading.decodings)
                == ruleWithTools(first, bytes, path)
    }

    /// Whether the reading is no endpoint but one that the path as it was sent is, too.
    ///
    /// - Parameter reading: It finds the same route.
    func meetsNoOtherEndpoint(
        in reading: PathReadings.Reading,
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> Bool {
        guard !endpoints.isEmpty || !capturePoints.isEmpty else { return true }
        let path = head.forwardedPath(match, without: prefix)
        let read = forwarded(of: reading, path, head)
        if let point = capturePoint(read, reading.path.span), capturePoint(path, bytes) != point { return false }
        for endpoint in endpoints where endpoint.isMeant(by: read, in: reading.path.span) {
            guard endpoint.isMeant(by: path, in: bytes) else { return false }
        }
        return true
    }

    /// - Parameter path: What is forwarded of the path as it was sent.
    private func forwarded(
        of reading: PathReadings.Reading,
        _ path: Range<Int>,
        _ head: borrowing RequestHead
    ) -> Range<Int> {
        let skipped = path.lowerBound - head.path.lowerBound
        return min(skipped, reading.path.count)..<reading.path.count
    }

    /// What to change if the path has an encoded slash and its rule has a `*`, which stands for one segment.
    func hint(
        for reading: PathReadings.Reading,
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> String? {
        var slashes = 0
        for index in head.path where bytes[index] == UInt8(ascii: "/") { slashes += 1 }
        guard slashes < reading.path.count(where: { $0 == UInt8(ascii: "/") }),
            let number = rule(for: head.forwardedPath(match, without: prefix), head, bytes),
            allow[number].path.segments.contains(.any), !selectsSameRule(for: reading, match, head, bytes)
        else { return nil }
        return "In a rule of allow, * matches one segment; to allow encoded slashes, end the rule in **."
    }

    private static let encodedSlashes =
        "A rule of allow covers the path with its slashes decoded, but rules are compared with the path as it is sent:"
        + " in the rule, write each encoded slash as the client does."

    /// Whether a rule allows the path, which none allows as it was sent, once its encoded slashes are separators.
    private func allowsDecoded(_ path: Range<Int>, _ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>)
        -> Bool
    {
        var isEncoded = false
        for index in path where bytes[index] == UInt8(ascii: "%") { isEncoded = true }
        guard isEncoded, let readings = try? PathReadings(bytes, head.path) else { return false }
        let method = head.methodName(bytes)
        for reading in readings.all where reading.decodings == 1 {
            let read = forwarded(of: reading, path, head)
            for rule in allow where rule.takes(method) && rule.takes(reading.path.span, read, decodings: 1) {
                return true
            }
        }
        return false
    }

    // MARK: Destination

    /// Whether the client may send that method to a path of the upstream without an approval: whichever way a server reads it, the route
    /// leads there, by the same rule, and no endpoint of an authority is there.
    func takes(_ method: String, of client: String?, at path: [UInt8]) -> Bool {
        if let clients, !(client.map(clients.contains) ?? false) { return false }
        let sent = PathReadings.Reading(path: path, decodings: 0)
        switch CanonicalPath.judge(path.span, path.indices, strictness: strictness, refusesReadings: false) {
        case .refused: return false
        case .unambiguous: return takes(method, at: sent) != nil
        case .severalReadings:
            guard let rule = takes(method, at: sent), let others = try? PathReadings(path.span, path.indices) else {
                return false
            }
            return others.all.allSatisfy { takes(method, at: $0) == rule }
        }
    }

    /// - Returns: The number of the rule, 0 without rules; nil where the route does not take it.
    private func takes(_ method: String, at reading: PathReadings.Reading) -> Int? {
        let path = reading.path
        guard path.starts(with: base), path.count == base.count || path[base.count] == UInt8(ascii: "/") else {
            return nil
        }
        let rest = base.count..<path.count
        if endpoints.contains(where: { $0.isMeant(by: rest, in: path.span) }) { return nil }
        if capturePoint(rest, path.span) != nil { return nil }
        if allow.isEmpty { return 0 }
        // An operator who approves the request would not see this path.
        if needsApproval, approval(of: method, path.span, rest, decodings: reading.decodings) != .nothing { return nil }
        return allow.firstIndex { rule in
            rule.takes(method) && rule.takes(path.span, rest, decodings: reading.decodings)
        }
    }

    /// What each rule lacks that does not allow the method and path.
    private func misses(
        of path: Range<Int>,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> [RuleMiss] {
        let method = head.methodName(bytes)
        return allow.enumerated().map { number, rule in
            RuleMiss(
                number: number + 1,
                rule: rule.description,
                takesMethod: rule.takes(method),
                takesPath: rule.takes(bytes, path)
            )
        }
    }

    private func forbidden(_ endpoint: AuthorityEndpoint) -> GatewayProblem {
        GatewayProblem(
            .routeForbidden,
            "\(endpoint.path) is an endpoint of the authorization server of the route \(name), which only the gateway may call."
                + " To let clients call it, name this path without a wildcard in a rule of the route's allow."
        )
    }
}

extension RoutePlan.Allow {
    fileprivate func takes(_ method: String) -> Bool { methods.isEmpty || methods.contains(method) }

    /// - Parameter path: As it is forwarded; empty is the root.
    fileprivate func takes(_ bytes: borrowing Span<UInt8>, _ path: Range<Int>, decodings: Int = 0) -> Bool {
        if path.isEmpty { return self.path.matchesRoot }
        return decodings == 0 ? self.path.matches(bytes, path) : self.path.decoded(decodings).matches(bytes, path)
    }
}

/// How many bytes of a request's path stand for the route itself, by how the request found it.
package struct PathPrefix: Sendable {
    let matched: Int32
    let upstream: Int32

    package init(_ route: RoutePlan) {
        matched = route.matchPath == "/" ? 0 : Int32(clamping: route.matchPath.utf8.count)
        upstream = Int32(clamping: route.upstreamPath.utf8.count)
    }
}

extension RequestHead {
    /// The part of the path that goes behind the upstream's base path; empty means the root.
    borrowing func forwardedPath(_ match: RouteTable.Match, without prefix: PathPrefix) -> Range<Int> {
        switch match {
        case .host: path
        case .path: path.lowerBound + Int(prefix.matched)..<path.upperBound
        // An absolute target names the upstream's own path, base path included.
        case .upstream, .unrouted: path.lowerBound + Int(prefix.upstream)..<path.upperBound
        }
    }
}
