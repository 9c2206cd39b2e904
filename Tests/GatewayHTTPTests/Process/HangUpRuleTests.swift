import GatewayHTTP
import Testing

@Suite("Hang-up", .timeLimit(.minutes(5)))
struct HangUpRuleTests {
    @Test(
        "only a closed terminal ends the gateway",
        arguments: [
            (hadTerminal: true, terminalIsGone: true, action: HangUpRule.Action.stop),
            (hadTerminal: true, terminalIsGone: false, action: .reload),
            (hadTerminal: false, terminalIsGone: true, action: .reload),
            (hadTerminal: false, terminalIsGone: false, action: .reload),
        ]
    )
    func onlyAClosedTerminalEndsTheGateway(hadTerminal: Bool, terminalIsGone: Bool, action: HangUpRule.Action) {
        let rule = HangUpRule(wasIgnored: false, hadTerminal: hadTerminal)
        #expect(rule.isHandled)
        #expect(rule.action(terminalIsGone: terminalIsGone) == action)
    }

    @Test(arguments: [false, true])
    func anInheritedIgnoreStays(hadTerminal: Bool) {
        #expect(!HangUpRule(wasIgnored: true, hadTerminal: hadTerminal).isHandled)
    }
}
