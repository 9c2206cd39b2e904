/// All that one peer may say on a connection, and what it means: frames, field blocks, streams, windows, settings and budgets.
///
/// Bytes go in, events come out, one for a frame. It performs nothing: the connection that owns it writes frames, keeps the content, and
/// knows the exchanges. It is the same for a client's connection and for one to an upstream.
package struct HTTP2Conversation: ~Copyable, Sendable {
    package struct Limits: Hashable, Sendable {
        /// Maximum size of a head, counted as HTTP/1 would write it.
        package fileprivate(set) var headerBytes: Int
        package fileprivate(set) var headerFields: Int
        /// Streams that a client may open at one time.
        package let maximumStreams: Int
        package let connectionWindow: Int
        package let streamWindow: Int

        package init(
            headerBytes: Int,
            headerFields: Int,
            maximumStreams: Int,
            connectionWindow: Int,
            streamWindow: Int
        ) {
            self.headerBytes = headerBytes
            self.headerFields = headerFields
            self.maximumStreams = maximumStreams
            self.connectionWindow = connectionWindow
            self.streamWindow = streamWindow
        }

        /// What the peer is told (SETTINGS_MAX_HEADER_LIST_SIZE). A list counts 32 bytes more for each field (RFC 9113 section 6.5.2), so
        /// the limits of a head are met first, and a head that exceeds them is answered.
        package var headerList: Int { headerBytes + 32 * headerFields }
    }

    package enum Event: Hashable, Sendable {
        /// The frame is not whole. Pass the rest of the bytes again, followed by more.
        case needMore
        /// The frame is dealt with. There may be credit for the connection (``HTTP2StreamTable/connectionCredit()``).
        case nothing
        /// A client has begun a request; its fields are in the table that was given.
        case request(HTTP2StreamTable.Place, isLast: Bool)
        /// Trailers of a client, with which its request always ends, or the head or the trailers of a response. As with ``request``, they are
        /// in the table of the event loop, and have to be read before anything else on the loop can decode.
        case fields(HTTP2StreamTable.Place, isLast: Bool, isClosed: Bool)
        /// The range is of the bytes that were given.
        case content(HTTP2StreamTable.Place, Range<Int>, isLast: Bool, isClosed: Bool)
        /// Answer with RST_STREAM (REFUSED_STREAM).
        case refused(stream: UInt32)
        /// The peer has reset the stream, whose place is free. Content of it that is still held has to be taken
        /// (``HTTP2StreamTable/take(_:_:)``), as with each stream that closes.
        case reset(HTTP2StreamTable.Place, HTTP2ErrorNumber)
        /// The stream may send more; nil for the connection.
        case windowGrew(HTTP2StreamTable.Place?)
        /// Answer with an acknowledgement. Windows may have changed.
        case settings
        case settingsAcknowledged
        /// Answer it.
        case ping(UInt64)
        case pingAnswer(UInt64)
        /// The peer opens no streams any more, and does not deal with those above `last`. The owner must call
        /// ``HTTP2StreamTable/receiveGoAway(last:)`` itself, since it has to end them.
        case goAway(last: UInt32, HTTP2ErrorNumber)
        /// Answer with RST_STREAM. The place is free, if there was one.
        case streamFault(stream: UInt32, HTTP2StreamTable.Place?, HTTP2Fault)
        /// Answer with GOAWAY, and close the connection.
        case connectionFault(HTTP2Fault)
    }

    package private(set) var peerSettings = HTTP2PeerSettings()
    package var streams: HTTP2StreamTable
    private var reader: HTTP2FrameReader
    private var decoder = FieldBlockDecoder()
    private var limits: Limits
    private let peerIsClient: Bool
    // Budgets.
    private var meter: HTTP2FrameMeter
    private var faults = FaultBudget()
    private var resets = FaultBudget()
    /// Empty frames of DATA in a row. Some clients send a few.
    private var emptyFrames = 0

    /// How many field blocks of an upstream may be ignored. Responses to requests that we have cancelled are on their way, and are no
    /// faults: each request pays for a head and trailers.
    private var lateBlocks = 0

    private static let maximumEmptyFrames = 10
    private static let maximumLateBlocks = 2048

    package init(peerIsClient: Bool, limits: Limits, at now: MonotonicTime) {
        self.peerIsClient = peerIsClient
        self.limits = limits
        streams = HTTP2StreamTable(
            peerIsClient: peerIsClient,
            maximumStreams: peerIsClient ? limits.maximumStreams : .max,
            connectionWindow: limits.connectionWindow,
            streamWindow: limits.streamWindow
        )
        reader = HTTP2FrameReader(ofClient: peerIsClient, maximumList: limits.headerList)
        meter = HTTP2FrameMeter(at: now)
    }

    /// Changes the limits of heads. The peer was told the first ones, and how long a field block may be stays as it was.
    package mutating func changeHeads(bytes: Int, fields: Int) {
        (limits.headerBytes, limits.headerFields) = (bytes, fields)
    }

    /// A field block has begun, and is not whole.
    package var isWithinBlock: Bool { reader.isWithinBlock }
    /// The memory that the unfinished field block takes.
    package var blockMemory: Int { reader.blockMemory }
    /// Gives up the memory of an unfinished field block. Nothing may be received afterwards.
    package mutating func dropBlock() { reader.dropBlock() }
    /// What the peer's last GOAWAY says in words.
    package var farewell: [UInt8] { reader.farewell }

    /// Deals with the next frame.
    ///
    /// - Parameters:
    ///   - position: Where the frame begins; then where it ends.
    ///   - fields: Gets the fields of a request, response or trailers.
    package mutating func receive(
        _ bytes: borrowing Span<UInt8>,
        from position: inout Int,
        into fields: inout HTTP2FieldTable,
        at now: () -> MonotonicTime
    ) -> Event {
        do throws(HTTP2Fault) {
            switch try reader.next(bytes, from: position) {
            case .needMore: return .needMore
            case .frame(let frame, let type, let next):
                position = next
                guard meter.receive(type: type, at: now) else {
                    throw .tooManyFrames
                }
                let event = try receive(frame, bytes, &fields, now)
                try count(event, now)
                return event
            }
        } catch {
            return .connectionFault(error)
        }
    }

    /// Deals with what has come of content whose frame is not whole, so that it need not be kept.
    ///
    /// - Parameter position: Where ``receive(_:from:into:at:)`` needs more; then where the part ends.
    /// - Returns: `needMore` if it has to be kept.
    package mutating func receivePart(
        _ bytes: borrowing Span<UInt8>,
        from position: inout Int,
        at now: () -> MonotonicTime
    ) -> Event {
        guard case .frame(.data(let id, let content, _, _), _, let next) = reader.nextPart(bytes, from: position) else {
            return .needMore
        }
        position = next
        do throws(HTTP2Fault) {
            let event = try receiveData(id, content, padding: 0, isLast: false)
            try count(event, now)
            return event
        } catch {
            return .connectionFault(error)
        }
    }

    private mutating func receiveData(
        _ id: UInt32,
        _ content: Range<Int>,
        padding: Int,
        isLast: Bool
    ) throws(HTTP2Fault) -> Event {
        let verdict = try streams.receiveData(id, content.count, padding: padding, isLast: isLast)
        guard case .more(let place, let isClosed) = verdict else {
            try count(emptyFrame: content.isEmpty)
            return event(of: verdict, on: id)
        }
        try count(emptyFrame: content.isEmpty && !isLast)
        if !content.isEmpty { meter.receivedContent() }
        return .content(place, content, isLast: isLast, isClosed: isClosed)
    }

    private mutating func receive(
        _ frame: HTTP2FrameReader.Frame,
        _ bytes: borrowing Span<UInt8>,
        _ fields: inout HTTP2FieldTable,
        _ now: () -> MonotonicTime
    ) throws(HTTP2Fault) -> Event {
        switch frame {
        case .data(let id, let content, let padding, let isLast):
            return try receiveData(id, content, padding: padding, isLast: isLast)
        case .fields(let id, let block, let isLast):
            emptyFrames = 0
            return try receiveFields(id, block, bytes, isLast: isLast, &fields, now)
        case .reset(let id, let code):
            let place = try streams.receiveReset(id)
            if peerIsClient, !resets.spend(at: now()) {
                throw .tooManyResets
            }
            return place.map { .reset($0, code) } ?? .nothing
        case .settings(let payload):
            try peerSettings.read(bytes.extracting(payload), ofServer: !peerIsClient)
            try streams.changeInitialWindow(to: peerSettings.initialWindow)
            if !peerIsClient { streams.maximumStreams = peerSettings.maximumStreams }
            return .settings
        case .settingsAcknowledgement:
            streams.settingsAcknowledged()
            return .settingsAcknowledged
        case .ping(let data): return .ping(data)
        case .pingAnswer(let data): return .pingAnswer(data)
        case .goAway(let last, let code): return .goAway(last: last, code)
        case .windowUpdate(let id, let increment):
            guard let verdict = try streams.receiveWindowUpdate(id, increment) else {
                return id == 0 ? .windowGrew(nil) : .nothing
            }
            guard case .more(let place, _) = verdict else { return event(of: verdict, on: id) }
            return .windowGrew(place)
        case .ignored: return .nothing
        case .streamFault(let id, let fault): return event(of: try streams.receiveFault(id, fault), on: id)
        }
    }

    /// Every block is decoded, whatever becomes of its stream: the table of the connection has to follow.
    private mutating func receiveFields(
        _ id: UInt32,
        _ block: Range<Int>?,
        _ bytes: borrowing Span<UInt8>,
        isLast: Bool,
        _ fields: inout HTTP2FieldTable,
        _ now: () -> MonotonicTime
    ) throws(HTTP2Fault) -> Event {
        let message: HTTP2FieldTable.Message =
            !peerIsClient ? .response : id > streams.lastID ? .request : .trailers
        fields.begin(message, maxBytes: limits.headerBytes, maxFields: limits.headerFields)
        if let block {
            try decoder.decode(bytes.extracting(block), into: &fields, maxBytes: limits.headerBytes)
        } else {
            let whole = reader.takeBlock()
            try decoder.decode(whole.span, into: &fields, maxBytes: limits.headerBytes)
        }
        let isClosing = streams.isClosing
        let verdict = try streams.receiveFields(id, isLast: isLast)
        switch verdict {
        case .opened(let place): return .request(place, isLast: isLast)
        case .more(let place, let isClosed): return .fields(place, isLast: isLast, isClosed: isClosed)
        case .refused: if !isClosing { try countFault(now) }
        case .ignored:
            guard lateBlocks > 0 else {
                try countFault(now)
                break
            }
            lateBlocks -= 1
        case .streamFault: break
        }
        return event(of: verdict, on: id)
    }

    private func event(of verdict: HTTP2StreamTable.Verdict, on id: UInt32) -> Event {
        switch verdict {
        case .streamFault(let place, let fault): .streamFault(stream: id, place, fault)
        case .refused: .refused(stream: id)
        case .opened, .more, .ignored: .nothing
        }
    }

    // MARK: Budgets

    /// A stream was reset for what the peer has done.
    ///
    /// - Returns: Whether the connection may go on.
    package mutating func spendFault(at now: () -> MonotonicTime) -> Bool { faults.spend(at: now()) }

    private mutating func countFault(_ now: () -> MonotonicTime) throws(HTTP2Fault) {
        guard spendFault(at: now) else { throw .tooManyFaults }
    }

    private mutating func count(_ event: Event, _ now: () -> MonotonicTime) throws(HTTP2Fault) {
        if case .streamFault = event { try countFault(now) }
    }

    private mutating func count(emptyFrame isEmpty: Bool) throws(HTTP2Fault) {
        guard isEmpty else { return emptyFrames = 0 }
        emptyFrames += 1
        guard emptyFrames <= Self.maximumEmptyFrames else {
            throw .tooManyEmptyFrames
        }
    }

    // MARK: Sending

    /// Our request opens a stream.
    ///
    /// - Returns: nil if there are as many as the upstream takes, or if there are no ids left.
    package mutating func openStream(isLast: Bool) -> HTTP2StreamTable.Place? {
        guard let place = streams.openStream(isLast: isLast) else { return nil }
        meter.sentRequest()
        lateBlocks = min(Self.maximumLateBlocks, lateBlocks + 2)
        return place
    }

    /// DATA with this content leaves.
    package mutating func send(_ count: Int, _ place: HTTP2StreamTable.Place) {
        streams.spend(count, place)
        meter.sent(count)
    }

    /// DATA with this content leaves if the windows have room for all of it.
    ///
    /// - Returns: Whether they have.
    package mutating func sendWhole(_ count: Int, _ place: HTTP2StreamTable.Place) -> Bool {
        guard streams.connectionRoom > 0, count <= streams.room(place) else { return false }
        send(count, place)
        return true
    }
}
