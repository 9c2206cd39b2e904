import GatewayHTTP

/// What the rules of a route say about an admitted request beyond its head: which calls its body may have, whether an operator has to
/// approve it, and whether it is a login that the gateway answers.
///
/// A class, because few requests have one, and a reference is small.
final class BodyRules: Sendable {
    /// The rule for the calls in the request, and for what is shown of its response; nil if there is none.
    let tools: ToolRule?
    /// Where the request is answered in the place of an authorization server; nil if it is forwarded.
    let capturePoint: CapturePoint?
    /// What of the request an operator has to approve.
    let approval: ApprovalScope
    /// The tool rules whose calls need an approval.
    let approvedTools: [ToolRule]
    /// The request may carry a call.
    private let mayCall: Bool

    init(
        tools: ToolRule?,
        capturePoint: CapturePoint?,
        approval: ApprovalScope,
        approvedTools: [ToolRule],
        mayCall: Bool
    ) {
        self.tools = tools
        self.capturePoint = capturePoint
        self.approval = approval
        self.approvedTools = approvedTools
        self.mayCall = mayCall
    }

    /// The rule that has to read the body before the request is sent; nil if none has to.
    var readsCalls: ToolRule? { mayCall && tools?.source == .body ? tools : nil }

    /// Whether a request that was admitted under `old` may go on under `new`.
    ///
    /// - Parameters:
    ///   - isFiltered: A rule already decides what of the response is shown.
    ///   - isApproved: An operator has approved the request.
    static func letsGoOn(_ old: BodyRules?, under new: BodyRules?, isFiltered: Bool, isApproved: Bool) -> Bool {
        // What the request calls is no longer known, or not yet.
        if let rule = isFiltered ? new?.tools : new?.readsCalls {
            guard rule.takesAll(of: isFiltered ? old?.tools : old?.readsCalls) else { return false }
        }
        guard !isApproved else { return true }
        let (scope, earlier) = (new?.approval ?? .nothing, old?.approval ?? .nothing)
        guard scope == earlier, scope == .calls else { return scope <= earlier }
        return new?.approvedTools == old?.approvedTools
    }
}
