package import GatewayConfiguration
import GatewayHTTP

/// When a token is obtained and renewed, and what happens while it cannot be.
package struct RenewalPolicy: Hashable, Sendable {
    package enum AcquireOn: String, CaseIterable, Sendable {
        /// With the first request that needs it.
        case demand
        /// As soon as the gateway has started, or a reload has brought the credential.
        case startup
    }

    package enum OnAuthorityFailure: String, CaseIterable, Sendable {
        case serveUntilExpiry = "serve_until_expiry"
        case fail
    }

    /// False with `renew: false`: once there is a token, only a command renews it.
    var isAutomatic: Bool
    /// Share of the lifetime, in percent, that is left when background renewal begins.
    package var aheadPercent: Int
    var atLeast: Duration
    /// Upstream statuses that may mean that the token was rejected.
    package var retryOn: [Int]
    /// Responses that mean the same without such a status; nil for none.
    package var rejectedWhen: RejectionRule?
    package var onAuthorityFailure: OnAuthorityFailure
    var acquireOn: AcquireOn

    package init(
        isAutomatic: Bool = true,
        aheadPercent: Int = 10,
        atLeast: Duration = .seconds(60),
        retryOn: [Int] = [401],
        rejectedWhen: RejectionRule? = nil,
        onAuthorityFailure: OnAuthorityFailure = .serveUntilExpiry,
        acquireOn: AcquireOn = .demand
    ) {
        self.isAutomatic = isAutomatic
        self.aheadPercent = aheadPercent
        self.atLeast = atLeast
        self.retryOn = retryOn
        self.rejectedWhen = rejectedWhen
        self.onAuthorityFailure = onAuthorityFailure
        self.acquireOn = acquireOn
    }

    /// How long before its end a token of this lifetime is renewed: the configured share, at least ``atLeast``, and
    /// never more than half, so that a token that is shorter-lived than the threshold is used nevertheless.
    package func ahead(of lifetime: Duration) -> Duration {
        min(max(lifetime * aheadPercent / 100, atLeast), lifetime / 2)
    }
}

/// The keys that say when and how a token is renewed.
extension RenewalPolicy {
    private static let standard = RenewalPolicy()
    /// The default of `at_least`, as its users write it.
    package static let standardAtLeast = ConfigUnits.seconds(standard.atLeast)

    /// Keys that all renewable strategies share. The decoder reads those without a property.
    package static let keys = Keys(standard) {
        $0(
            "renew",
            default: "{ahead: \(standard.aheadPercent)%, at_least: \(standardAtLeast)}",
            type: "a mapping, or false",
            example: "ahead: 20%\nat_least: 5m"
        )
        .covers { [$0.isAutomatic, $0.aheadPercent, $0.atLeast] }
        .shows("renews_by_itself", as: "renew", texts: { $0 == .flag(false) ? ["false"] : [] }) {
            .flag($0.isAutomatic)
        }
        .showsInJSON("renew_ahead") { $0.isAutomatic ? .text("\($0.aheadPercent)%") : nil }
        .shows("renew_at_least", as: "renew", text: Self.textOfRenewal) {
            $0.isAutomatic ? .text(ConfigUnits.text($0.atLeast)) : nil
        }
        .means(
            "How long before it expires a token is renewed. With false, only "
                + "authgateway token refresh renews it."
        )
        // With `rejected_when`, which credentials with sessions have besides.
        $0("retry_on", default: "[401]", example: "[401, 403]")
            .covers {
                [
                    $0.retryOn, $0.rejectedWhen?.statuses, $0.rejectedWhen?.location?.text, $0.rejectedWhen?.body?.text,
                ]
            }
            .shows("retry_on") { .list($0.retryOn.map { .number($0) }) }
            .shows("rejected_when", texts: RejectionRule.texts) { $0.rejectedWhen.map(\.shown) }
            .means(
                "Upstream statuses that can mean that the token was rejected. The request is replayed "
                    + "with a new one."
            )
        $0("on_authority_failure", \.onAuthorityFailure, .choice, example: "fail")
            .shows("on_authority_failure") { $0.isAutomatic ? .text($0.onAuthorityFailure.rawValue) : nil }
            .means(
                "What happens while there is no new token: the old one is used until it expires, or "
                    + "requests fail at once."
            )
        $0("acquire_on", \.acquireOn, .choice, example: "startup")
            .shows("acquire_on") { $0.isAutomatic ? .text($0.acquireOn.rawValue) : nil }
            .means("When the first token is fetched: with the first request that needs it, or at the start.")
    }

    private static func textOfRenewal(_ values: [String: ShownValue]) -> String? {
        guard let ahead = values["renew_ahead"], let atLeast = values["renew_at_least"] else { return nil }
        return "{ahead: \(ahead.text), at_least: \(atLeast.text)}"
    }
}

/// What the plan shows of `rejected_when`.
extension RejectionRule {
    fileprivate var shown: ShownValue {
        var values: [String: ShownValue] = [:]
        values["status"] = statuses.isEmpty ? nil : .list(statuses.map { .number($0) })
        values["location"] = location.map { .text($0.text) }
        values["body"] = body.map { .text($0.text) }
        return .mapping(values)
    }

    /// One line, made from what ``shown`` returned.
    fileprivate static func texts(_ shown: ShownValue) -> [String] {
        guard case .mapping(let values) = shown else { return [] }
        let parts = [
            values["status"].map { "status: \($0.text)" }, values["location"].map { "location: \($0.text)" },
            values["body"].map { "body: \(JSONString.quoted($0.text))" },
        ]
        return ["{\(parts.compactMap(\.self).joined(separator: ", "))}"]
    }
}
