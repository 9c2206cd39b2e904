import GatewayCore

/// `fleet` as people read it.
enum FleetText {
    private static let mark = " *"

    static func table(of report: FleetReport, _ style: TextStyle) -> String {
        guard !report.gateways.isEmpty else { return "No gateway shares the token store at the moment.\n" }
        var table = TextTable(
            "HOST",
            "ID",
            "VERSION",
            "CONFIGURATION",
            "STARTED",
            "CLOCK",
            "SEEN",
            "LAG",
            "UNSHIPPED"
        )
        for gateway in report.gateways {
            let cells = [
                gateway.host, gateway.id, gateway.version + (gateway.versionDiffers ? mark : ""),
                gateway.configurationDigest + (gateway.configurationDiffers ? mark : ""), gateway.startedAt,
                offset(gateway), "\(seconds(gateway.lastSeenSeconds)) ago", lag(gateway), String(gateway.unshipped),
            ]
            table.add(cells, color: gateway.lagSeconds == nil ? .red : .green, column: 7)
        }
        return table.text(style) + advice(report)
    }

    private static func lag(_ gateway: FleetReport.Gateway) -> String {
        gateway.lagSeconds.map(seconds) ?? "did not follow"
    }

    private static func offset(_ gateway: FleetReport.Gateway) -> String {
        let sign = gateway.clockOffsetSeconds < 0 ? "-" : "+"
        return sign + seconds(abs(gateway.clockOffsetSeconds)) + (gateway.clockIsOff ? mark : "")
    }

    /// With one digit after the point below a minute.
    private static func seconds(_ value: Double) -> String {
        guard value < 60 else { return ConfigUnits.countdown(Int(value)) }
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(tenths % 10) s"
    }

    private static func advice(_ report: FleetReport) -> String {
        var lines: [String] = []
        if report.gateways.contains(where: \.versionDiffers) {
            lines.append("Versions differ. Bring all gateways to the same one.")
        }
        if report.gateways.contains(where: \.configurationDiffers) {
            lines.append("Configurations differ. Compare the files, and run authgateway reload where one is old.")
        }
        if report.gateways.contains(where: \.clockIsOff) {
            lines.append("A clock is more than 5 s off. Let the machine ask a time server.")
        }
        return lines.isEmpty ? "" : "\n" + lines.map { "\($0)\n" }.joined()
    }
}
