/// What is said of secrets and certificates of our own that end at a known time.
package enum ExpirationRule {
    package static func findings(of expirations: [Expiration]) -> [DoctorFinding] { expirations.map(finding) }

    private static func finding(of expiration: Expiration) -> DoctorFinding {
        let group: DoctorFinding.Group = expiration.kind == .certificate ? .tls : .credentials
        let left = ConfigUnits.countdown(expiration.remainingSeconds)
        let day = expiration.endsAt.prefix(10)
        guard expiration.remainingSeconds > 0 else {
            let text = "its \(expiration.kind.rawValue) ended on \(day)"
            return DoctorFinding(group, .error, expiration.of, text, remedy: expiration.action)
        }
        let text = "its \(expiration.kind.rawValue) ends on \(day), in \(left)"
        return DoctorFinding(
            group,
            expiration.isSoon ? .warning : .ok,
            expiration.of,
            text,
            remedy: expiration.isSoon ? expiration.action : nil
        )
    }
}
