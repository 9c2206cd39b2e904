import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Memory of uploads", .timeLimit(.minutes(5)))
struct UploadMemoryTests {
    @Test func aClientHoldsNoMoreThanItMay() {
        let memory = UploadMemory(limit: 100)
        #expect(memory.change(of: "a", by: 60) && memory.change(of: "a", by: 40))
        #expect(!memory.change(of: "a", by: 1) && memory.bytes(of: "a") == 100)
        #expect(memory.change(of: "a", by: -1) && memory.change(of: "a", by: 1))
    }

    @Test func eachClientHasItsOwnAndThoseWithoutANameShareOne() {
        let memory = UploadMemory(limit: 100)
        #expect(memory.change(of: "a", by: 100) && memory.change(of: "b", by: 100) && memory.change(of: nil, by: 100))
        #expect(!memory.change(of: nil, by: 1) && !memory.change(of: "b", by: 1))
        for client in ["a", "b", nil] { #expect(memory.change(of: client, by: -100) && memory.bytes(of: client) == 0) }
    }

    @Test func halfOfItIsKeptFromReadingAhead() {
        let memory = UploadMemory(limit: 100)
        #expect(memory.allowsReadingAhead(for: "a"))
        #expect(memory.change(of: "a", by: 49) && memory.allowsReadingAhead(for: "a"))
        #expect(memory.change(of: "a", by: 1) && !memory.allowsReadingAhead(for: "a"))
        #expect(memory.allowsReadingAhead(for: nil))
    }

    @Test func aLowerLimitTakesNothingBack() {
        let memory = UploadMemory(limit: 100)
        #expect(memory.change(of: "a", by: 80))
        memory.setLimit(50)
        #expect(!memory.change(of: "a", by: 1) && memory.change(of: "a", by: -10) && !memory.change(of: "a", by: 1))
        #expect(memory.change(of: "a", by: -60) && memory.change(of: "a", by: 40))
        #expect(
            memory.problem.kind == .clientLimitReached
                && memory.problem.detail.contains("limits.upload_memory allows (50")
        )
    }
}

@Suite("What one upload holds", .timeLimit(.minutes(5)))
struct UploadHoldTests {
    private var hold = UploadHold()

    @Test func theCopyCountsOnlyWhileSomethingWaits() {
        #expect(hold.growth(unread: 0, behindEnd: false, untaken: 0, copy: 500) == 0)
        #expect(hold.growth(unread: 1, behindEnd: false, untaken: 0, copy: 500) == 501)
        #expect(hold.growth(unread: 0, behindEnd: true, untaken: 7, copy: 500) == 507)
    }

    @Test func aCopyThatNoUpstreamHasCounts() {
        #expect(hold.growth(unread: 0, behindEnd: false, untaken: 0, copy: 500, isCollected: true) == 500)
        #expect(hold.growth(unread: 3, behindEnd: false, untaken: 0, copy: 500, isCollected: true) == 503)
        #expect(hold.growth(unread: 0, behindEnd: true, untaken: 0, copy: 0, isCollected: true) == 0)
    }

    @Test func oneReadBehindTheRequestIsTheNextRequests() {
        let limit = UploadHold.uncounted
        #expect(hold.growth(unread: limit, behindEnd: true, untaken: 0, copy: 0) == 0)
        #expect(hold.growth(unread: limit + 1, behindEnd: true, untaken: 0, copy: 0) == limit + 1)
        #expect(hold.growth(unread: limit, behindEnd: false, untaken: 0, copy: 0) == limit)
    }

    @Test mutating func whatIsHeldIsNotCountedTwice() {
        hold.change(by: 10)
        #expect(hold.growth(unread: 10, behindEnd: false, untaken: 0, copy: 0) == 0)
        #expect(hold.growth(unread: 4, behindEnd: false, untaken: 0, copy: 0) == -6)
    }

    @Test mutating func theClientIsReadFurtherWhenPatienceEnds() {
        let waits = hold.upstreamIsFull(limit: .seconds(30))
        #expect(waits && !hold.isAhead)
        let (wasPatience, again) = (hold.deadlinePassed(), hold.deadlinePassed())
        #expect(wasPatience && !again && hold.isAhead)
        // Where memory was lacking, reading goes on by the next deadline.
        let waitsAgain = hold.upstreamIsFull(limit: .seconds(30))
        let wasPatienceAgain = hold.deadlinePassed()
        #expect(waitsAgain && wasPatienceAgain && hold.isAhead)
        hold.upstreamTakesMore()
        #expect(!hold.isAhead)
    }

    @Test mutating func anotherDeadlineEndsTheWait() {
        let waits = hold.upstreamIsFull(limit: .seconds(30))
        hold.deadlineWasSet()
        let wasPatience = hold.deadlinePassed()
        #expect(waits && !wasPatience && !hold.isAhead)
    }

    @Test mutating func thereIsNoPatienceWithinALimitThatIsNoLonger() {
        let atPatience = hold.upstreamIsFull(limit: UploadHold.patience)
        let beyond = hold.upstreamIsFull(limit: UploadHold.patience + .milliseconds(1))
        #expect(!atPatience && beyond)
    }
}
