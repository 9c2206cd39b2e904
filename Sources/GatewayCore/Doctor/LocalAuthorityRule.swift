/// What is said of the local authority, and of who trusts it.
package enum LocalAuthorityRule {
    /// A root that ends sooner has a successor already, while the gateway runs.
    private static let soon: Duration = .seconds(14 * 86_400)

    /// - Parameters:
    ///   - trust: nil where the authority cannot be read.
    ///   - isIntercepting: Whether a listener answers in the place of a host.
    package static func finding(of trust: AuthorityTrust?, isIntercepting: Bool, at now: UnixTime) -> DoctorFinding? {
        func finding(
            _ level: DoctorFinding.Level,
            _ text: String,
            _ remedy: String? = nil,
            _ command: String? = nil
        ) -> DoctorFinding {
            DoctorFinding(.tls, level, "local authority", text, remedy: remedy, command: command)
        }
        guard isIntercepting else { return nil }
        guard let trust else {
            return finding(.error, "its certificates cannot be read", "Run this as the gateway's user.")
        }
        guard let last = trust.roots.map(\.endsAt).max() else {
            return finding(.ok, "there is none yet; it is made when the gateway starts")
        }
        let day = last.rfc3339.prefix(10)
        guard last > now else {
            return finding(
                .error,
                "its certificates ended on \(day)",
                "Start the gateway: it makes new ones.",
                "authgateway run"
            )
        }
        if last < now + soon {
            return finding(
                .warning,
                "its certificates end on \(day)",
                "Start the gateway: it makes new ones.",
                "authgateway run"
            )
        }
        if trust.isInstalledInPart {
            let text = "this machine trusts some of its certificates; others are newer"
            return finding(.warning, text, "Install the new ones.", "sudo authgateway ca install")
        }
        guard !trust.isTrustedBySystem else { return finding(.ok, "trusted by this machine until \(day)") }
        let remedy = "Programs trust it when they are started with authgateway exec, or after authgateway ca install."
        return finding(.ok, "this machine does not trust it", remedy)
    }
}
