import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Renewal ahead of the end", .timeLimit(.minutes(5)))
struct RenewalTests {
    @Test func theOldTokenIsUsedWhileTheNewOneIsOnItsWay() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .held])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            try await bench.clock.untilAsleep(moreThan: .seconds(3239), atMost: .seconds(3240))
            bench.clock.advance(by: .seconds(3240))
            try await endpoint.untilHeld()
            #expect(bench.generation == 1)
            #expect(bench.status.state == .renewing)
            endpoint.release(.token("two", expiresIn: 3600))
            let fresh = try await bench.untilGeneration(after: 1)
            #expect(fresh.generation == 2)
            #expect(bench.audit.last(.renewed)?.trigger == .aheadOfExpiry)
        }
    }

    @Test func theStatusNamesTheClientsThatMayCauseNoRenewal() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600)])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            #expect(bench.status.emptyBudgets == nil && bench.status.emptyBudgetText == nil)
            let (record, now) = (try #require(bench.keeper.rejections), bench.clock.now())
            for number in 1...12 {
                let path = Array("/x".utf8)
                let template = PathTemplate(path.span, method: 0..<0, path: 0..<path.count)
                let key = RejectionLedger.Key(route: number, template: template)
                _ = record.decision(for: key, generation: number, client: nil, at: now.monotonic)
            }
            let fillsAt = (now.wall + .seconds(300)).rfc3339
            #expect(bench.status.emptyBudgets == [TokenStatus.EmptyBudget(client: nil, fillsAt: fillsAt)])
            #expect(bench.status.emptyBudgetText == "empty for anonymous clients until \(fillsAt)")
        }
    }

    @Test func tokensOfFiveSecondsAreRenewedAtHalfTimeForALongTime() async throws {
        let endpoint = ScriptedTokenEndpoint { _, count in .token("token-\(count)", expiresIn: 5) }
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            for generation in 1..<200 {
                try await bench.clock.untilAsleep(moreThan: .seconds(2), atMost: .milliseconds(2500))
                #expect(bench.generation == generation)
                bench.clock.advance(by: .milliseconds(2500))
                _ = try await bench.untilGeneration(after: generation)
            }
            #expect(endpoint.requests.count == 200)
        }
    }

    @Test func aMachineThatSleptThroughTheEndRenewsOnceOnWake() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .token("two", expiresIn: 3600)])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            try await bench.clock.untilAsleep(moreThan: .seconds(3000))
            bench.clock.advance(by: .seconds(8 * 3600))
            let results = await withTaskGroup(of: Int?.self) { group in
                for _ in 0..<100 { group.addTask { await bench.credential().generation } }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results == Array(repeating: 2, count: 100))
            #expect(endpoint.requests.count == 2)
        }
    }

    @Test(arguments: [Duration.seconds(3600), .seconds(-3600), .seconds(86400 * 365)])
    func aJumpOfTheWallClockCausesNoRenewal(by jump: Duration) async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .token("two", expiresIn: 3600)])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            try await bench.clock.untilAsleep(moreThan: .seconds(3000))
            bench.clock.jumpWall(by: jump)
            #expect(bench.generation == 1)
            #expect(bench.clock.nextWake == .seconds(3240))
            #expect(endpoint.requests.count == 1)
        }
    }
}
