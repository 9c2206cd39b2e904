import Testing

@testable import GatewayProxy

@Suite("Requests whose route changes its rules for bodies", .timeLimit(.minutes(5)))
struct BodyRulesTests {
    private static func tools(_ names: String..., source: ToolRule.Source = .body) -> ToolRule {
        ToolRule(tools: names.compactMap(ToolRule.NamePattern.init), source: source)
    }

    private static func rules(
        _ tools: ToolRule? = nil,
        approval: ApprovalScope = .nothing,
        approved: [ToolRule] = [],
        mayCall: Bool = true
    ) -> BodyRules {
        BodyRules(tools: tools, capturePoint: nil, approval: approval, approvedTools: approved, mayCall: mayCall)
    }

    private static func goesOn(
        _ old: BodyRules?,
        _ new: BodyRules?,
        isFiltered: Bool = false,
        isApproved: Bool = false
    ) -> Bool {
        BodyRules.letsGoOn(old, under: new, isFiltered: isFiltered, isApproved: isApproved)
    }

    @Test func aRuleThatAllowsLessEndsTheRequest() {
        let (one, two) = (Self.rules(Self.tools("a")), Self.rules(Self.tools("a", "b")))
        #expect(Self.goesOn(one, one))
        #expect(Self.goesOn(one, two))
        #expect(!Self.goesOn(two, one))
        #expect(!Self.goesOn(nil, one))
        #expect(Self.goesOn(one, nil))
    }

    @Test func aRequestWithoutCallsIsJudgedByItsResponseAlone() {
        let (none, one) = (Self.rules(mayCall: false), Self.rules(Self.tools("a"), mayCall: false))
        #expect(Self.goesOn(none, one))
        #expect(!Self.goesOn(none, one, isFiltered: true))
        #expect(Self.goesOn(one, none, isFiltered: true))
    }

    @Test func callsThatTheFieldsSayAreNotReadFromTheBody() {
        let (body, fields) = (Self.rules(Self.tools("a")), Self.rules(Self.tools("a", source: .header)))
        #expect(body.readsCalls != nil && fields.readsCalls == nil)
        #expect(!Self.goesOn(fields, body))
        #expect(Self.goesOn(body, fields))
    }

    @Test func anApprovalThatIsAskedNowEndsTheRequest() {
        let everything = Self.rules(approval: .everything)
        let (a, b) = (
            Self.rules(approval: .calls, approved: [Self.tools("a")]),
            Self.rules(approval: .calls, approved: [Self.tools("b")])
        )
        #expect(!Self.goesOn(nil, everything))
        #expect(!Self.goesOn(a, everything))
        #expect(Self.goesOn(everything, everything) && Self.goesOn(a, a))
        #expect(!Self.goesOn(a, b))
        #expect(Self.goesOn(everything, a) && Self.goesOn(a, nil))
        #expect(Self.goesOn(nil, everything, isApproved: true))
    }
}
