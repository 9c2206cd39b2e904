/// Spells metrics as Prometheus' text exposition format 0.0.4 wants them.
enum MetricText {
    /// Anything that a metric name cannot hold becomes `_`.
    static func name(_ text: String) -> String {
        String(text.map { $0.isASCII && ($0.isLetter || $0.isNumber) || $0 == "_" || $0 == ":" ? $0 : "_" })
    }

    static func labels(_ labels: [(String, String)]) -> String {
        guard !labels.isEmpty else { return "" }
        let pairs = labels.map { "\(name($0))=\"\(escape($1))\"" }
        return "{\(pairs.joined(separator: ","))}"
    }

    static func exposition(of series: [MetricRegistry.Key: MetricRegistry.Series]) -> String {
        let sorted = series.sorted { ($0.key.name, $0.key.labels) < ($1.key.name, $1.key.labels) }
        var result = ""
        var previous = ""
        for (key, series) in sorted {
            if key.name != previous { result += head(key.name, series) }
            previous = key.name
            result += lines(key, series)
        }
        return result
    }

    private static func head(_ name: String, _ series: MetricRegistry.Series) -> String {
        let help = MetricHelp.texts[name].map { "# HELP \(name) \(escapeHelp($0))\n" } ?? ""
        return "\(help)# TYPE \(name) \(type(of: series))\n"
    }

    private static func type(of series: MetricRegistry.Series) -> String {
        switch series {
        case .counter: "counter"
        case .gauge: "gauge"
        case .histogram: "histogram"
        }
    }

    private static func lines(_ key: MetricRegistry.Key, _ series: MetricRegistry.Series) -> String {
        switch series {
        case .counter(let counter): return "\(key.name)\(key.labels) \(counter.value)\n"
        case .gauge(let gauge): return "\(key.name)\(key.labels) \(number(gauge.value))\n"
        case .histogram(let histogram):
            let reading = histogram.value
            var (result, total) = ("", Int64(0))
            for (index, count) in reading.counts.enumerated() {
                total += count
                let bound = index < histogram.bounds.count ? number(histogram.bounds[index]) : "+Inf"
                result += "\(key.name)_bucket\(adding("le", bound, to: key.labels)) \(total)\n"
            }
            return result
                + "\(key.name)_sum\(key.labels) \(number(reading.sum))\n\(key.name)_count\(key.labels) \(total)\n"
        }
    }

    private static func adding(_ name: String, _ value: String, to labels: String) -> String {
        let pair = "\(name)=\"\(value)\""
        return labels.isEmpty ? "{\(pair)}" : "\(labels.dropLast()),\(pair)}"
    }

    private static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if value == value.rounded(), abs(value) < 1e15 { return String(Int64(value)) }
        return String(value)
    }

    /// In a HELP line quotes stand as they are.
    private static func escapeHelp(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\n", with: "\\n")
    }

    private static func escape(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
}
