import GatewayCore

extension TokenText {
    /// Several lines below the table.
    static func failing(_ token: TokenStatus) -> String {
        LogText.clean(token.credential) + ":\n" + lines(troubles(of: token) ?? [], indent: "  ")
    }

    /// nil when the last call brought a token.
    static func troubles(of token: TokenStatus) -> [(String, String?)]? {
        guard let failing = token.failing else { return nil }
        return [
            ("failing since", failing.since),
            ("reason", failing.reason),
            ("authority said", token.authorityError?.text),
            ("next try", nextTry(failing)),
            ("what to do", failing.remedy),
            ("command", failing.command),
            ("requests failed", failing.failedRequests.flatMap { $0 > 0 ? String($0) : nil }),
        ]
    }

    private static func nextTry(_ failing: TokenStatus.Failing) -> String {
        failing.nextTryAt ?? failing.notBefore.map { "with the next request, not before \($0)" } ?? "not by itself"
    }

    /// One fact a line; those without a value are left out.
    static func lines(_ facts: [(String, String?)], indent: String = "") -> String {
        let known = facts.compactMap { name, value in value.map { (name, $0) } }
        let width = known.map(\.0.count).max() ?? 0
        return known.map { indent + "\($0): ".padding(to: width + 2) + LogText.clean($1) + "\n" }.joined()
    }
}
