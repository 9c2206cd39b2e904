/// The rule for requests that a browser made: none may come from another origin unless it is listed.
struct OriginRule: Sendable {
    enum Decision {
        /// No page has sent it, or one of this origin.
        case passes
        case granted(CrossOriginGrant)
        case refused(GatewayProblem)
    }

    let policy: CrossOriginPolicy
    /// The list is the route's own.
    let isOfRoute: Bool

    /// - Parameter own: The server in whose place the gateway answers, whose own pages may call.
    func decide(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        own: InterceptedOrigin? = nil
    ) -> Decision {
        guard head.present.contains(.origin) || head.present.contains(.secFetchSite) else { return .passes }
        var grant: CrossOriginGrant?
        var hasOrigin = false
        var isSameSite = true
        for field in head.section.fields {
            if field.kind == .origin {
                let granted = policy.grant(bytes, field.value)
                guard granted != nil || own?.isOrigin(field.value, of: bytes) ?? false,
                    !hasOrigin || granted === grant
                else { return .refused(problem(isNull: bytes.equalsLowercased(field.value, "null"))) }
                grant = granted
                hasOrigin = true
            } else if field.kind == .secFetchSite {
                let value = field.value
                let isOwn = bytes.equalsLowercased(value, "none") || bytes.equalsLowercased(value, "same-origin")
                isSameSite = isSameSite && isOwn
            }
        }
        if let grant { return .granted(grant) }
        return hasOrigin || isSameSite ? .passes : .refused(problem(isNull: false))
    }

    private func problem(isNull: Bool) -> GatewayProblem {
        if isNull { return GatewayProblem(.originRefused, Self.null) }
        let key = isOfRoute ? "allow_origins of the route" : "access.allow_origins"
        return GatewayProblem(
            .originRefused,
            "A web page of another origin sent this. Add its origin to \(key) if it may."
        )
    }

    private static let null =
        "A web page that has no origin (Origin: null) sent this: a file, or a sandboxed frame. It cannot be allowed;"
        + " serve the page from an origin, and add that to access.allow_origins."
}
