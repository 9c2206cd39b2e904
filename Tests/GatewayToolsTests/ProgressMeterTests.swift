import Testing

@testable import GatewayTools

@Suite("Progress", .timeLimit(.minutes(1)))
struct ProgressMeterTests {
    @Test func quickWorkShowsNothing() {
        var meter = ProgressMeter("Verifying")
        #expect(meter.line(at: .milliseconds(499), done: 5, width: 80) == nil)
        #expect(meter.erasure() == nil)
    }

    @Test func aLineIsWrittenOverTheOneBeforeAndErasedOnce() {
        var meter = ProgressMeter("Verifying")
        #expect(meter.line(at: .milliseconds(500), done: 0, width: 80) == "\rVerifying, 0s\u{1B}[K")
        meter.step("Verifying the copy", total: 2000, unit: "rows")
        #expect(meter.line(at: .milliseconds(600), done: 1, width: 80) == nil)
        #expect(
            meter.line(at: .seconds(75), done: 500, width: 80)
                == "\rVerifying the copy: 500 of 2000 rows (25 %), 1m15s\u{1B}[K"
        )
        #expect(meter.erasure() == "\r\u{1B}[K")
        #expect(meter.erasure() == nil)
    }

    @Test func itComesBackAfterItWasErased() {
        var meter = ProgressMeter("Verifying")
        _ = meter.line(at: .seconds(1), done: 0, width: 80)
        _ = meter.erasure()
        #expect(meter.line(at: .milliseconds(1001), done: 0, width: 80) != nil)
    }

    @Test(arguments: [(3, nil, "3 rows"), (9, 3, "9 of 9 rows (100 %)"), (3, 0, "3 rows"), (0, 7, "0 of 7 rows (0 %)")])
    func theTotalMayBeUnknownOrTooSmall(_ done: Int, _ total: Int?, _ text: String) {
        var meter = ProgressMeter("x")
        meter.step("Exporting", total: total, unit: "rows")
        #expect(meter.line(at: .seconds(2), done: done, width: 80) == "\rExporting: \(text), 2s\u{1B}[K")
    }

    @Test func aLineIsShorterThanTheTerminal() {
        var meter = ProgressMeter("Verifying the audit log")
        #expect(meter.line(at: .seconds(1), done: 0, width: 10) == "\rVerifying\u{1B}[K")
    }
}
