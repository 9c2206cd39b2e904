import GatewayConfiguration
import GatewayHTTP
import GatewayStrategies
import GatewayTokens
import Testing

@testable import GatewayApp
@testable import GatewayProxy

/// Keys of a route that decide what its clients can get out of the upstream's connection and answers.
@Suite("Protection of routes", .timeLimit(.minutes(5)))
struct RouteProtectionTests {
    private func outcome(_ text: String) -> ConfigOutcome {
        let secrets = MemorySecrets(variables: ["TOKEN": "t-secret"])
        return ConfigLoader(files: MemoryFiles(["/work/gateway.yaml": text]), environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
    }

    private func route(_ settings: String) throws -> (plan: RoutePlan, shown: PlanSummary) {
        let outcome = outcome("version: 1\nroutes:\n  app: {upstream: https://app.example.com, \(settings)}\n")
        let plan = try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
        return (try #require(plan.routes.first), PlanSummary(plan))
    }

    private func report(_ settings: String) -> String {
        outcome("version: 1\nroutes:\n  app: {upstream: https://app.example.com, \(settings)}\n")
            .report(consequence: "refused")
    }

    private static let bearer = "auth: {strategy: bearer, token: {env: TOKEN}}"

    // MARK: Cookies

    @Test(arguments: [
        ("auth: none", CookiePolicy.pass), ("auth: {strategy: none, as_user: \"42\"}", .pass), (bearer, .drop),
        ("\(bearer), cookies: pass", .pass), ("\(bearer), cookies: drop", .drop), ("auth: none, cookies: drop", .drop),
    ])
    func whatBecomesOfCookiesIsDecidedAtLoad(_ settings: String, _ policy: CookiePolicy) throws {
        let (plan, shown) = try route(settings)
        #expect(plan.cookies == policy)
        #expect(shown.text().contains("    cookies: \(policy.rawValue)\n"))
        #expect(shown.json().contains("\"cookies\" : \"\(policy.rawValue)\""))
    }

    @Test func anotherWordIsRefused() {
        #expect(report("auth: none, cookies: remove").contains("routes.app.cookies: expected one of drop, pass"))
    }

    // MARK: Tools

    @Test(arguments: [
        ("tools: [search, \"read_*\"]", "any method /mcp, tools search, read_*"),
        ("tools: []", "any method /mcp, no tools"),
        (
            "methods: [POST], tools: [a], mcp_methods: [prompts/get], tools_from: header",
            "POST /mcp, tools a, mcp_methods prompts/get, tools_from header"
        ),
    ])
    func aRuleNamesTools(_ keys: String, _ description: String) throws {
        let (plan, shown) = try route("auth: none, allow: [{path: /mcp, \(keys)}]")
        #expect(plan.allow.map(\.description) == [description])
        #expect(shown.text().contains(description))
        #expect(shown.json().contains("\"tools_from\" : \"\(keys.contains("header") ? "header" : "body")\""))
    }

    @Test(arguments: [
        ("{path: /mcp, tools: [a*b]}", "routes.app.allow[0].tools: \"a*b\": only the last character may be a *"),
        ("{path: /mcp, tools: }", "\"tools\" has no value; remove it to check no calls"),
        ("{path: /mcp, tools_from: body}", "has no effect without tools"),
        ("{path: /mcp, mcp_methods: [a]}", "has no effect without tools"),
        ("{path: /mcp, tools: [a], tools_from: headers}", "expected one of body, header"),
    ])
    func aRuleForToolsThatCannotBeReadIsRefused(_ rules: String, _ message: String) {
        #expect(report("auth: none, allow: [\(rules)]").contains(message))
    }

    // MARK: Approval

    private static let digest = "02ed3077b032c1e0a58c88b63840ca927c8a0fcab59f6c6f19fc4225c594fc4e"
    private static let approver = "alice: {role: operator, token_sha256: \(digest)}"

    private func approval(_ rule: String, users: String?, _ more: String = "") -> ConfigOutcome {
        let listeners = users.map { "listeners: {admin: {address: 127.0.0.1:8081, users: {\($0)}}}\n" } ?? ""
        return outcome(
            "version: 1\n\(listeners)routes:\n  app: {upstream: https://app.example.com, auth: none, allow: [\(rule)]\(more)}\n"
        )
    }

    @Test(arguments: [
        ("{path: /deploy, approve: true}", "any method /deploy, approve"),
        ("{path: /mcp, tools: [a], approve: true}", "any method /mcp, tools a, approve"),
    ])
    func aRuleAsksForAnApproval(_ rule: String, _ description: String) throws {
        let outcome = approval(rule, users: Self.approver)
        let plan = try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
        #expect(plan.routes[0].allow.map(\.description) == [description])
        #expect(
            PlanSummary(plan).text().contains(description) && PlanSummary(plan).json().contains("\"approve\" : true")
        )
        let free = try #require(approval(rule.replacing("true", with: "false"), users: nil).plan)
        #expect(!free.routes[0].allow[0].needsApproval)
    }

    @Test(arguments: [
        nil, "alice: {role: viewer, token_sha256: \(digest)}", "alice: {role: operator, token: {env: TOKEN}}",
    ])
    func withoutAnOperatorWhoMayApproveTheKeyIsRefused(_ users: String?) {
        let outcome = approval("{path: /a}, {path: /deploy, approve: true}", users: users)
        #expect(outcome.plan == nil)
        let report = outcome.report(consequence: "refused")
        #expect(report.contains("routes.app.allow[1].approve: no operator can approve these requests"), "\(report)")
        #expect(report.contains("token_sha256 or certificate"))
    }

    @Test func whatCannotBeShownIsRefused() {
        let rule = "{path: /mcp, tools: [a], tools_from: header, approve: true}"
        let report = approval(rule, users: Self.approver).report(consequence: "refused")
        #expect(report.contains("routes.app.allow[0].tools_from: with approve, the calls are shown"))
        let nothing = approval("{path: /a, approve: }", users: Self.approver).report(consequence: "refused")
        #expect(nothing.contains("\"approve\" has no value; remove it to hold nothing"))
        let word = approval("{path: /a, approve: maybe}", users: Self.approver).report(consequence: "refused")
        #expect(word.contains("routes.app.allow[0].approve"))
    }

    @Test func trustInFieldsIsWarnedOf() {
        let rule = "allow: [{path: /mcp, tools: [a], tools_from: header}]"
        let outcome = outcome("version: 1\nroutes:\n  app: {upstream: https://app.example.com, auth: none, \(rule)}\n")
        #expect(outcome.plan != nil)
        #expect(
            outcome.report(consequence: "refused").contains("trusts Mcp-Method and Mcp-Name and does not read the body")
        )
    }

    @Test func aPathThatAServerMayTakeForTheSameIsWarnedOf() throws {
        let report = outcome(
            "version: 1\nroutes:\n  app: {upstream: https://app.example.com, auth: none, allow: [{path: /mcp, tools: [a]}, {path: /**}]}\n"
        )
        #expect(report.plan != nil)
        #expect(report.report(consequence: "refused").contains("rule 2 allows /mcp/ without tools"))
    }

    // MARK: The user to act for

    private static let box = "auth: {strategy: box_developer_token, token: {env: TOKEN}}"

    @Test(arguments: [box, "auth: {strategy: bearer, token: {env: TOKEN}, as_user: \"42\"}"])
    func aRouteDoesNotSetTheUserToActForAsAHeader(_ auth: String) {
        let words = "the gateway keeps this field from clients; to set it, use \"auth: {…, as_user: …}\""
        #expect(
            report("\(auth), headers: {set: {As_User: \"1\"}}").contains("routes.app.headers.set.As_User: \(words)")
        )
        #expect(report("\(auth), headers: {remove: [As-User]}").contains(words))
    }

    @Test func withoutAStrategyThatKnowsSuchAUserThereIsNone() {
        let text =
            "version: 1\nroutes:\n  app: {upstream: https://a.example, auth: {strategy: bearer, token: a, as_user: b}}\n"
        let bearer = StrategyCatalog(StrategyCatalog.builtIn.strategies.filter { $0.kind == "bearer" })
        let report = ConfigLoader(files: MemoryFiles(["/work/gateway.yaml": text]), environment: { _ in nil })
            .plan(at: "gateway.yaml", catalog: bearer, presets: PresetLibrary(), secrets: UnreadSecrets())
            .report(consequence: "refused")
        #expect(report.contains("routes.app.auth.as_user: no strategy knows a field that names a user to act for"))
    }

    // MARK: Authentication of the connection

    @Test(arguments: ["auth: none", "auth: none, connection_auth: false", bearer])
    func clientsCannotAuthenticateTheConnectionByDefault(_ settings: String) throws {
        let (plan, shown) = try route(settings)
        #expect(!plan.allowsConnectionAuth)
        #expect(!shown.text().contains("connection_auth"))
    }

    @Test(arguments: ["auth: none, connection_auth: true", "auth: {strategy: none}, connection_auth: true"])
    func aRouteWithoutACredentialMayAllowIt(_ settings: String) throws {
        let (plan, shown) = try route(settings)
        #expect(plan.allowsConnectionAuth)
        #expect(shown.text().contains("    connection_auth: true\n"))
    }

    @Test(arguments: [
        ("\(bearer), connection_auth: true", "routes.app.connection_auth: is for routes with \"auth: none\""),
        (
            "auth: none, connection_auth: true, headers: {remove: [authorization]}",
            "routes.app.connection_auth: \"headers.remove\" takes Authorization away"
        ),
        ("auth: none, connection_auth: yes", "routes.app.connection_auth: expected true or false"),
    ])
    func whereTheClientsFieldIsNotForwardedItIsAnError(_ settings: String, _ message: String) {
        #expect(report(settings).contains(message))
    }

    // MARK: Reload

    @Test func aReloadNamesTheChange() throws {
        let mark = { (bytes: [UInt8]) in String(decoding: bytes, as: UTF8.self) }
        func digest(_ cookies: String) throws -> PlanDigest {
            let text = "version: 1\nroutes: {app: {upstream: https://a.example, auth: none, cookies: \(cookies)}}\n"
            return PlanDigest(try #require(outcome(text).plan), mark: mark)
        }
        let changes = PlanChange.effective(PlanChange.between(try digest("pass"), try digest("drop")))
        #expect(changes.map(\.notes) == [["cookies: pass -> drop"]])
    }
}
