import Foundation

// The renewal load of a fleet, for docs/internals/fleet.md. `GatewayRenewalLoad [TOKENS] [steady|cold|outage]`; 1,000,000
// tokens and all of these unless given.

let count = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 1_000_000
let hour = 3600

func run(_ scenario: Simulation.Scenario) -> LoadResult {
    var simulation = Simulation(scenario, seed: 1)
    return simulation.run()
}

func say(_ scenario: Simulation.Scenario, _ lines: [(String, Int?)]) {
    print("\n\(scenario.name): \(scenario.tokens) tokens that live \(scenario.lifetime)")
    for (what, value) in lines { print("  \(what): \(value.map(String.init) ?? "never")") }
}

func steady() {
    let scenario = Simulation.Scenario(name: "Steady", tokens: count, length: Int64(3 * hour))
    let result = run(scenario)
    let range = hour..<3 * hour
    say(
        scenario,
        [
            ("calls in a second, mean", result.mean(range)), ("99 of 100 seconds at most", result.percentile99(range)),
            ("highest", result.highest(range)), ("lowest number of live tokens", result.lowestLive(range)),
        ]
    )
}

func coldStart(_ name: String, capacity: Int = .max, hours: Int) {
    var scenario = Simulation.Scenario(name: name, tokens: count, length: Int64(hours * hour))
    scenario.beginsSteady = false
    scenario.capacity = capacity
    let result = run(scenario)
    var lines: [(String, Int?)] = [
        ("calls in the busiest second of the first minute", result.highest(0..<60)),
        ("seconds until half have a token", result.second(withLive: count / 2, from: 0)),
        ("seconds until 99 of 100 have one", result.second(withLive: count * 99 / 100, from: 0)),
        ("calls that the authority refused", result.failures), ("requests without a token", result.refused),
    ]
    for round in [1, 2, 5, 10, 20] where round < hours {
        let middle = round * 3222
        let range = middle - 300..<middle + 600
        lines.append(("highest in renewal \(round)", result.highest(range)))
    }
    say(scenario, lines)
}

func outage(_ name: String, capacity: Int = .max) {
    var scenario = Simulation.Scenario(name: name, tokens: count, length: Int64(4 * hour))
    scenario.outage = Int64(hour)..<Int64(2 * hour)
    scenario.capacity = capacity
    let result = run(scenario)
    let end = 2 * hour
    say(
        scenario,
        [
            ("calls in a second before, mean", result.mean(hour / 2..<hour)),
            ("in the first 6 minutes of the outage, highest", result.highest(hour..<hour + 360)),
            ("in the outage, highest", result.highest(hour..<end)),
            ("in the last minute of it, mean", result.mean(end - 60..<end)),
            ("in the two minutes after it, highest", result.highest(end..<end + 120)),
            ("live tokens at its end", result.lowestLive(hour..<end)),
            ("requests without a token", result.refused),
            (
                "seconds after it until 99 of 100 have a token",
                result.second(withLive: count * 99 / 100, from: end).map { $0 - end }
            ),
            ("highest from 10 minutes after it", result.highest(end + 600..<4 * hour)),
        ]
    )
}

let part = CommandLine.arguments.dropFirst(2).first
if part == nil || part == "steady" { steady() }
if part == nil || part == "cold" {
    coldStart("Cold start of all", hours: 21)
    coldStart("Cold start, the authority answers \(count / 500) a second", capacity: count / 500, hours: 2)
}
if part == nil || part == "outage" {
    outage("Outage of an hour")
    outage("Outage of an hour, the authority answers \(count / 500) a second", capacity: count / 500)
}
