import GatewayEvents
import GatewayHTTP

/// The last hour as two charts: requests by result, and how long they took. Of all requests, or of one route or client.
struct TrafficSection {
    let page: StatusPage

    /// What is shown.
    private struct Series {
        var title = "All requests"
        var requests: [Int] = []
        var errors: [Int] = []
        var rejections: [Int] = []

        mutating func add(_ traffic: TrafficStatus) {
            requests = Self.sum(requests, traffic.requests)
            errors = Self.sum(errors, traffic.errors)
            rejections = Self.sum(rejections, traffic.rejections)
        }

        private static func sum(_ left: [Int], _ right: [Int]) -> [Int] {
            left.isEmpty ? right : zip(left, right).map { $0 + $1 }
        }
    }

    var html: HTML {
        let series = series
        return """
            <section id="traffic" data-live aria-labelledby="traffic-title">
            <h2 id="traffic-title">Traffic</h2>
            \(form)
            <div class="charts">
            \(requests(series))
            \(latencies)
            </div>
            </section>
            """
    }

    // MARK: Choice

    private var series: Series {
        if let chosen = page.lists.traffic {
            if let client = chosen.client { return series(of: client) }
            if let name = chosen.route, let traffic = page.traffic[name] {
                var series = Series(title: "Route \(name)")
                series.add(traffic)
                return series
            }
        }
        return page.routes.compactMap { page.traffic[$0.name] }.reduce(into: Series()) { $0.add($1) }
    }

    private func series(of client: String) -> Series {
        let title = client.isEmpty ? "Clients without a name" : "Client \(client)"
        guard let found = page.hour.clients.first(where: { ($0.client ?? "") == client && $0.isRest != true }) else {
            return Series(title: title)
        }
        return Series(title: title, requests: found.requests, errors: found.errors, rejections: found.rejections)
    }

    private var form: HTML? {
        let clients = page.hour.clients.filter { $0.isRest != true }
        guard page.routes.count > 1 || !clients.isEmpty else { return nil }
        let chosen = page.lists.traffic
        // With more routes the list would be longer than the rest of the page.
        let routes = page.routes.prefix(200).map {
            option("route:\($0.name)", "route \($0.name)", chosen?.route == $0.name)
        }
        let named = clients.map { client in
            let name = client.client ?? ""
            return option(
                "client:\(name)",
                name.isEmpty ? "clients without a name" : "client \(name)",
                chosen?.client == name
            )
        }
        return """
            <form class="filters" method="get" action="/" id="traffic-form">
            \(page.lists.hidden(but: "traffic"))
            <label><span class="spoken">Requests of</span><select name="traffic" class="chip">\
            <option value="">all requests</option>\(routes)\(named)</select></label>
            <button class="plain-only chip">Show</button>
            </form>
            """
    }

    private func option(_ value: String, _ title: String, _ isChosen: Bool) -> HTML {
        "<option value=\"\(value)\"\(isChosen ? " selected" : HTML.empty)>\(title)</option>"
    }

    // MARK: Charts

    private func requests(_ series: Series) -> HTML {
        let total = series.requests.reduce(0, +)
        let (errors, rejections) = (series.errors.reduce(0, +), series.rejections.reduce(0, +))
        let scale = ChartScale(requestsPerMinute: series.requests.max() ?? 0)
        let now = PageText.rate(Double(series.requests.suffix(2).first ?? 0) / 60)
        let share = total == 0 ? "no requests" : "\(PageText.share(Double(errors) / Double(total))) errors"
        let words =
            "\(series.title), last hour: \(total.counted("request")), \(errors.counted("error")), \(rejections) rejected by the upstream"
        return chart(
            title: "\(series.title) by result",
            caption: "\(now) · \(share)",
            scale: scale,
            drawing: HourChart(limit: scale.limit).bars(series.requests, series.errors, series.rejections),
            legend: [(.good, "answered"), (.warn, "rejected (401, 403)"), (.bad, "errors")],
            words: words
        )
    }

    private var latencies: HTML {
        let times = page.hour.latencies
        let all = [times.upstreamP99, times.upstreamP50, times.gatewayP99].joined().compactMap(\.self)
        let scale = ChartScale(milliseconds: all.max() ?? 0)
        func latest(_ values: [Double?]) -> String {
            values.last { $0 != nil }.flatMap { $0 }.map(PageText.milliseconds) ?? "–"
        }
        let caption = """
            upstream p50 \(latest(times.upstreamP50)), p99 \(latest(times.upstreamP99)) · \
            gateway p50 \(latest(times.gatewayP50)), p99 \(latest(times.gatewayP99))
            """
        let chart = HourChart(limit: scale.limit)
        return self.chart(
            title: "Latency of all requests",
            caption: caption,
            scale: scale,
            drawing: [
                chart.line(times.gatewayP99, "good"), chart.line(times.upstreamP50, "accent"),
                chart.line(times.upstreamP99, "warn"),
            ].reduce(HTML.empty) { "\($0)\($1)" },
            legend: [(.warn, "upstream p99"), (.accent, "upstream p50"), (.good, "gateway p99")],
            words: "Latency now: \(caption)"
        )
    }

    private func chart(
        title: String,
        caption: String,
        scale: ChartScale,
        drawing: HTML,
        legend: [(Mark, String)],
        words: String
    ) -> HTML {
        let times = (0...4).map { quarter -> HTML in
            guard let from = UnixTime(rfc3339: page.hour.from) else { return "<span></span>" }
            return PageText.time((from + .seconds(Int64(quarter) * 900)).rfc3339, now: page.now, style: .minute)
        }
        let key = legend.map { mark, text -> HTML in "<span>\(HTML.dot(mark))\(text)</span>" }
        return """
            <figure class="panel graph">
            <figcaption><strong>\(title)</strong> <span class="soft">\(caption)</span></figcaption>
            \(HTML.spoken(words))
            <div class="plot" aria-hidden="true">
            <p class="scale">\(scale.labels.map { "<span>\($0)</span>" as HTML })</p>
            <svg viewBox="0 0 600 120" preserveAspectRatio="none"><path class="rest" d="M0 1H600M0 60H600M0 119H600"/>\(drawing)</svg>
            <p class="times">\(times)</p>
            </div>
            <p class="legend soft">\(key)</p>
            </figure>
            """
    }
}

/// The vertical axis of a chart: zero, half and a round number at the top.
struct ChartScale: Hashable {
    let limit: Double
    /// From the top down.
    let labels: [String]

    init(requestsPerMinute peak: Int) {
        guard peak >= 60 else {
            limit = max(2, Self.round(Double(peak)))
            labels = ["\(PageDrawing.number(limit))/min", PageDrawing.number(limit / 2), "0"]
            return
        }
        let top = Self.round(Double(peak) / 60)
        limit = top * 60
        labels = ["\(PageDrawing.number(top))/s", PageDrawing.number(top / 2), "0"]
    }

    init(milliseconds peak: Double) {
        limit = max(1, Self.round(peak))
        let (top, unit) = limit >= 10_000 ? (limit / 1000, "s") : (limit, "ms")
        labels = ["\(PageDrawing.number(top)) \(unit)", PageDrawing.number(top / 2), "0"]
    }

    /// The next of 1, 2, 3, 4, 6, 8 and 10 times a power of ten.
    private static func round(_ value: Double) -> Double {
        guard value.isFinite, value > 0 else { return 1 }
        var power = 1.0
        while power * 10 < value { power *= 10 }
        return ([1, 2, 3, 4, 6, 8, 10].first { $0 * power >= value } ?? 10) * power
    }
}

/// Draws the minutes of an hour, 600 wide and 120 high.
struct HourChart {
    let limit: Double

    private static let step = 10.0

    private func height(_ value: Double) -> Double { 118 * min(max(value / max(limit, 0.001), 0), 1) }

    /// One bar a minute: what was answered, on top of what upstreams rejected, on top of errors.
    func bars(_ requests: [Int], _ errors: [Int], _ rejections: [Int]) -> HTML {
        var paths: [(name: String, text: String)] = [("bad", ""), ("warn", ""), ("good", "")]
        for (minute, count) in requests.enumerated() where count > 0 {
            let failed = errors.indices.contains(minute) ? errors[minute] : 0
            let rejected = rejections.indices.contains(minute) ? rejections[minute] : 0
            var below = 0.0
            for (index, part) in [failed, rejected, max(0, count - failed - rejected)].enumerated() where part > 0 {
                // A single error among thousands of requests is seen, too.
                let size = index < 2 ? max(height(Double(part)), 2) : height(Double(part))
                let (x, y) = (Double(minute) * Self.step + 1, 119 - below)
                let top = PageDrawing.number(max(y - size, 0))
                paths[index].text +=
                    "M\(PageDrawing.number(x)) \(PageDrawing.number(y))V\(top)H\(PageDrawing.number(x + 8))V\(PageDrawing.number(y))Z"
                below += size
            }
        }
        return paths.filter { !$0.text.isEmpty }.map { "<path class=\"bar \($0.name)\" d=\"\($0.text)\"/>" as HTML }
            .reduce(HTML.empty) { "\($0)\($1)" }
    }

    /// A line with gaps where there is no value.
    func line(_ values: [Double?], _ name: String) -> HTML {
        var text = ""
        var isDrawing = false
        for (minute, value) in values.enumerated() {
            guard let value else {
                isDrawing = false
                continue
            }
            let x = PageDrawing.number(Double(minute) * Self.step + Self.step / 2)
            let y = PageDrawing.number(119 - height(value))
            // A minute between two without requests is a dot.
            text += isDrawing ? "L\(x) \(y)" : "M\(x) \(y)h.1"
            isDrawing = true
        }
        return text.isEmpty ? .empty : "<path class=\"curve \(name)\" d=\"\(text)\"/>"
    }
}
