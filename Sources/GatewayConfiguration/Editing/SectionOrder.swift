/// Where a section that a file does not have yet is put.
enum SectionOrder {
    private static let keys = [
        "version", "include", "state_directory", "workers", "proxy_status", "request_id_header", "listeners", "ca",
        "access", "audit", "telemetry", "tokens", "limits", "credentials", "routes",
    ]

    /// Before the first one that comes later, else behind all of them.
    static func index(for section: String, among present: [String]) -> Int {
        guard let rank = keys.firstIndex(of: section) else { return present.count }
        let later = Set(keys[(rank + 1)...])
        return present.firstIndex { later.contains($0) } ?? present.count
    }
}
