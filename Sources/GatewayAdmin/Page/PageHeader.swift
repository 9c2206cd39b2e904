import GatewayCore

/// The line of state: whether requests are served, and what serves them.
struct PageHeader {
    let state: StateLine
    let overview: GatewayOverview
    let now: UnixTime

    var html: HTML {
        """
        <header id="state" data-live>
        <h1>AuthGateway</h1>
        <p class="pill \(state.mark.rawValue)" role="status">\(state.text)</p>
        <p class="about">\(overview.version) · \(uptime) · <span>configuration \
        <code>\(overview.configurationDigest)</code> loaded \
        \(PageText.time(overview.configurationLoadedAt, now: now))</span>\
        <button type="button" class="link script" data-reload>reload</button> · \(chain)</p>
        </header>
        """
    }

    private var uptime: HTML {
        let seconds = UnixTime(rfc3339: overview.startedAt).map { Int((now - $0).wholeMilliseconds / 1000) } ?? 0
        let start = overview.startedAt
        return "<time datetime=\"\(start)\" title=\"\(start)\">up \(PageText.age(seconds))</time>"
    }

    private var chain: HTML {
        let verified = overview.auditVerifiedAt.map { PageText.time($0, now: now) }
        return switch overview.auditChain {
        case .notVerified: "<span title=\"Soon after the start, then daily\">audit chain not verified yet</span>"
        case .intact: "<span>audit chain intact \(verified)</span>"
        case .broken: "<strong class=\"bad\">audit chain broken \(verified)</strong>"
        }
    }
}
