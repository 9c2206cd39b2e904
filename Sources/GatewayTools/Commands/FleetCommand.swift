import ArgumentParser
import GatewayApp
import GatewayHTTP
import GatewayTokenStores
import GatewayTokens

struct FleetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet",
        abstract: "List the gateways that share the token store.",
        discussion: """
            Examples:
              authgateway fleet
              authgateway fleet --admin https://gateway-1.example.com:8443
              authgateway fleet --json | jq '.gateways[] | select(.lag_seconds == null)'

            The gateways are asked to follow at once. LAG is how long each took, at
            most 2 s. A gateway that was not seen for 5 s is not waited for; after a
            day it is no longer listed. CLOCK is the database's clock minus the
            gateway's. UNSHIPPED counts rows of the audit log that the database does
            not have yet. A version or configuration that differs is marked with *.

            Without a running gateway here, the database is asked directly.

            Exit codes: 0 done, 1 failed or not shared, 3 configuration, 4 gateway not
            reachable.
            """
    )

    @OptionGroup var gateway: RunningGatewayOptions

    func run() async throws(CommandFailure) {
        let (client, configuration) = try gateway.gateway()
        let report = try await client.reach { () async throws(CommandFailure) in
            try await client.ask(AdminAPI.operations.fleet)
        } orOffline: { (failure) async throws(CommandFailure) in
            guard let configuration else { throw failure }
            return try await Self.ofDatabase(configuration, after: failure)
        }
        guard gateway.json.isOn || !report.gateways.isEmpty else {
            return Console.writeError("No gateway shares the token store at the moment.\n")
        }
        Console.write(try gateway.json.text(of: report, or: FleetText.table(of: report, .current)))
    }

    private static func ofDatabase(
        _ configuration: String,
        after failure: CommandFailure
    ) async throws(CommandFailure) -> FleetReport {
        let settings = try OperatorSettings(configuration: configuration, readsDatabase: true)
        guard settings.plan.tokens.store == .postgres, let database = settings.plan.tokens.database else {
            throw CommandFailure(.failed, "\(failure.description)\n\(FleetInquiry.notShared.detail)")
        }
        Console.writeError("No gateway runs here; the database is asked.\n")
        let store = try settings.open(database)
        let answer = await FleetInquiry(store, clock: SystemClock())?.report()
        await store.close()
        switch answer {
        case .success(let report)?: return report
        case .failure(let error)?: throw CommandFailure(.failed, error.reason)
        case nil: throw CommandFailure(.failed, FleetInquiry.notShared.detail)
        }
    }
}

/// `fleet` as people read it.
private enum FleetText {
    private static let mark = " *"

    static func table(of report: FleetReport, _ style: TextStyle) -> String {
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
