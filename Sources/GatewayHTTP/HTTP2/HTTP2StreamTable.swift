/// The streams of one connection that are open, and its windows (RFC 9113 sections 5 and 6.9).
///
/// ```
///                      HEADERS, from whichever side opens it
///                                    │
///                      ┌──────── both open ────────┐
///         END_STREAM of the peer              END_STREAM of ours
///                      │                           │
///              remote closed                  local closed
///                      │                           │
///              END_STREAM of ours        END_STREAM of the peer
///                      └────────────┬──────────────┘
///              RST_STREAM of either │
///                                closed
/// ```
///
/// A closed stream leaves the table. A frame for it is ignored, since it may have been on its way, unless the peer had ended its side
/// before and the stream was not reset for a fault. The table returns verdicts and performs nothing: whoever owns the connection writes
/// frames, and keeps what else it knows of a stream in an array by ``Place``, which stays the same while the stream is open.
///
/// Noncopyable: to read one window would otherwise retain and release each of its arrays.
package struct HTTP2StreamTable: ~Copyable, Sendable {
    /// The index of an open stream. A later stream gets it again.
    package typealias Place = Int

    /// What a field block or a frame of DATA means for its stream.
    enum Verdict: Hashable, Sendable {
        /// The peer has opened a stream.
        case opened(Place)
        /// More of an open stream; `isClosed` says that both sides have ended, and the place is free.
        case more(Place, isClosed: Bool)
        /// There are as many streams as may be: answer REFUSED_STREAM.
        case refused
        /// The stream is closed. Its fields were only decoded, its DATA is credited at once.
        case ignored
        /// Answer with RST_STREAM. The place is free, if there was one.
        case streamFault(Place?, HTTP2Fault)
    }

    private struct Stream: Sendable {
        var id: UInt32
        var isRemoteOpen: Bool
        var isLocalOpen: Bool
        var sending: SendWindow
        var receiving: ReceiveWindow
    }

    private struct Opened: Sendable {
        let id: UInt32
        let place: Place
    }

    private let peerIsClient: Bool
    /// By place; free places have the id 0.
    private var streams: [Stream] = []
    private var free: [Place] = []
    /// In ascending order of their ids.
    private var opened: [Opened] = []
    /// How many streams are open. A stored property: to call a getter, the caller would first copy the whole table to where it can be passed.
    package private(set) var count = 0
    /// The stream that was opened last, or refused.
    package private(set) var lastID: UInt32 = 0
    /// How many streams may be open at one time.
    package internal(set) var maximumStreams: Int
    /// No more streams are opened.
    package private(set) var isClosing = false
    /// Closed streams that the peer has ended: nothing but WINDOW_UPDATE and RST_STREAM may follow.
    private var ended = RecentStreams(capacity: 32)
    /// Closed streams that we have reset before the peer had ended them: anything may follow.
    private var cut = RecentStreams(capacity: 256)

    private var sending = SendWindow()
    private var receiving: ReceiveWindow
    /// The windows of a new stream: by the peer's settings, and by ours once they are acknowledged.
    private var initialSending = SendWindow.initial
    private var initialReceiving = SendWindow.initial
    private let streamWindow: Int

    /// The largest id that a stream can have. As the last stream of a GOAWAY it refuses none.
    package static let largestID: UInt32 = (1 << 31) - 1

    /// - Parameters:
    ///   - peerIsClient: It opens the streams; otherwise we do.
    ///   - connectionWindow: What the peer may have sent on all streams together that was not taken.
    ///   - streamWindow: The same for one stream: what our settings say.
    package init(peerIsClient: Bool, maximumStreams: Int, connectionWindow: Int, streamWindow: Int) {
        self.peerIsClient = peerIsClient
        self.maximumStreams = maximumStreams
        self.streamWindow = streamWindow
        receiving = ReceiveWindow(target: connectionWindow, size: SendWindow.initial)
    }

    /// The places of all open streams, the oldest first.
    package var open: [Place] { opened.map(\.place) }

    package func id(of place: Place) -> UInt32 { streams[place].id }

    package func place(of id: UInt32) -> Place? { index(of: id).map { opened[$0].place } }

    /// Whether the stream has not been opened yet. Most frames must not name such a stream.
    private func isIdle(_ id: UInt32) -> Bool { id > lastID || id & 1 == 0 }

    // MARK: What the peer sends

    /// A field block was decoded.
    mutating func receiveFields(_ id: UInt32, isLast: Bool) throws(HTTP2Fault) -> Verdict {
        defer { checkInvariants() }
        if isIdle(id) {
            guard peerIsClient, id & 1 == 1 else {
                throw .invalidStream
            }
            lastID = id
            guard count < maximumStreams, !isClosing else {
                if isLast { ended.insert(id) } else { cut.insert(id) }
                return .refused
            }
            return .opened(add(id, isRemoteOpen: !isLast))
        }
        guard let place = place(of: id) else {
            guard !ended.contains(id) else { throw .afterEnd }
            // A client opens streams in order, so it has skipped this one (RFC 9113 section 5.1.1).
            guard !peerIsClient || cut.contains(id) else { throw .invalidStream }
            return .ignored
        }
        guard streams[place].isRemoteOpen else { return reset(place, .afterEnd) }
        guard isLast || !peerIsClient else {
            return reset(place, .unfinishedTrailers)
        }
        return .more(place, isClosed: isLast && endRemote(place))
    }

    /// - Parameters:
    ///   - count: Bytes of content.
    ///   - padding: Bytes of padding, which count in the windows, too, and are credited at once.
    mutating func receiveData(
        _ id: UInt32,
        _ count: Int,
        padding: Int,
        isLast: Bool
    ) throws(HTTP2Fault) -> Verdict {
        defer { checkInvariants() }
        guard !isIdle(id) else { throw .dataForIdle }
        guard receiving.receive(count &+ padding) else {
            throw .connectionWindowExceeded
        }
        receiving.take(padding)
        guard let place = place(of: id) else {
            guard !ended.contains(id) else { throw .afterEnd }
            receiving.take(count)
            return .ignored
        }
        guard streams[place].isRemoteOpen else {
            receiving.take(count)
            return reset(place, .afterEnd)
        }
        guard streams[place].receiving.receive(count &+ padding) else {
            receiving.take(count)
            return reset(place, .streamWindowExceeded)
        }
        streams[place].receiving.take(padding)
        return .more(place, isClosed: isLast && endRemote(place))
    }

    /// RST_STREAM has come.
    ///
    /// - Returns: The place of the stream, which is free now; nil if it was closed before.
    mutating func receiveReset(_ id: UInt32) throws(HTTP2Fault) -> Place? {
        defer { checkInvariants() }
        guard !isIdle(id) else { throw .resetOfIdle }
        guard let place = place(of: id) else { return nil }
        streams[place].isRemoteOpen = false
        remove(place)
        return place
    }

    /// - Parameter id: 0 for the connection.
    /// - Returns: The stream that can send more; nil for the connection, and for a stream that is closed.
    mutating func receiveWindowUpdate(_ id: UInt32, _ increment: Int) throws(HTTP2Fault) -> Verdict? {
        if id == 0 {
            guard sending.grow(by: increment) else { throw .largeWindow }
            return nil
        }
        guard !isIdle(id) else { throw .windowUpdateOfIdle }
        guard let place = place(of: id) else { return nil }
        guard streams[place].sending.grow(by: increment) else { return reset(place, .largeWindow) }
        return .more(place, isClosed: false)
    }

    /// A frame that breaks a rule which concerns its stream alone.
    mutating func receiveFault(_ id: UInt32, _ fault: HTTP2Fault) throws(HTTP2Fault) -> Verdict {
        // RST_STREAM must not name an idle stream.
        guard !isIdle(id) else { throw fault }
        guard let place = place(of: id) else { return .ignored }
        return reset(place, fault)
    }

    /// The peer's settings have changed the windows of all streams.
    mutating func changeInitialWindow(to size: Int) throws(HTTP2Fault) {
        let delta = size - initialSending
        initialSending = size
        guard delta != 0 else { return }
        for stream in opened {
            guard streams[stream.place].sending.grow(by: delta) else {
                throw .largeInitialWindow
            }
        }
    }

    /// The peer has acknowledged our settings: from now on it may send as much as they say.
    mutating func settingsAcknowledged() {
        let delta = streamWindow - initialReceiving
        initialReceiving = streamWindow
        for stream in opened { streams[stream.place].receiving.change(by: delta) }
    }

    /// The peer will not deal with our streams above `last`, nor with new ones. A client says nothing of its own streams with it.
    ///
    /// - Returns: Their places, which are free now, the oldest first: these requests can be sent elsewhere.
    package mutating func receiveGoAway(last: UInt32) -> [Place] {
        guard !peerIsClient else { return [] }
        isClosing = true
        let gone = opened.filter { $0.id > last }.map(\.place)
        for place in gone { remove(place) }
        return gone
    }

    /// As if the streams up to this one had been opened and closed. For tests: ids run out after a billion requests.
    mutating func skip(to id: UInt32) { lastID = id }

    // MARK: What we send

    /// Whether there are ids left for streams of ours: the last one has been used after a billion requests.
    package var hasIDs: Bool { lastID < Self.largestID }

    /// Opens a stream of ours.
    ///
    /// - Returns: nil if there are as many as the peer takes, or if there are no ids left.
    mutating func openStream(isLast: Bool) -> Place? {
        defer { checkInvariants() }
        let id = lastID == 0 ? 1 : lastID &+ 2
        guard !peerIsClient, !isClosing, count < maximumStreams, id <= Self.largestID else { return nil }
        lastID = id
        let place = add(id, isRemoteOpen: true)
        streams[place].isLocalOpen = !isLast
        return place
    }

    /// No stream is opened any more: what the peer opens from now on is refused.
    package mutating func close() { isClosing = true }

    /// How much content the stream may send now, as the windows go.
    package func room(_ place: Place) -> Int { min(sending.available, streams[place].sending.available) }

    /// How much content all streams together may send now.
    package var connectionRoom: Int { sending.available }

    /// Whether the stream itself has a window; the connection may have none.
    package func hasWindow(_ place: Place) -> Bool { streams[place].sending.available > 0 }

    /// DATA with this content leaves.
    mutating func spend(_ count: Int, _ place: Place) {
        sending.spend(count)
        streams[place].sending.spend(count)
    }

    /// DATA that was to leave, and counts as sent, was thrown away before the peer got it.
    package mutating func unsend(_ count: Int) { _ = sending.grow(by: count) }

    /// How much of the stream's content was sent without a WINDOW_UPDATE of the peer for it so far.
    package func unacknowledged(_ place: Place) -> Int { max(0, initialSending - streams[place].sending.size) }

    /// A frame with END_STREAM leaves.
    ///
    /// - Returns: Whether the stream is closed, and its place free.
    package mutating func endLocal(_ place: Place) -> Bool {
        defer { checkInvariants() }
        assert(streams[place].isLocalOpen, "A stream is ended twice.")
        streams[place].isLocalOpen = false
        guard !streams[place].isRemoteOpen else { return false }
        remove(place)
        return true
    }

    /// RST_STREAM leaves. The place is free.
    package mutating func reset(_ place: Place) {
        defer { checkInvariants() }
        remove(place)
    }

    // MARK: Credit

    /// The other side has taken content of a stream, or it was thrown away.
    ///
    /// - Parameter place: nil if the stream is closed.
    package mutating func take(_ count: Int, _ place: Place?) {
        receiving.take(count)
        if let place { streams[place].receiving.take(count) }
    }

    /// The increment of the next WINDOW_UPDATE for the connection, which counts as sent; nil while it is too small to be worth a frame.
    package mutating func connectionCredit() -> Int? { receiving.credit() }

    /// The same for a stream. One that the peer has ended gets none.
    package mutating func credit(_ place: Place) -> Int? {
        guard streams[place].isRemoteOpen else { return nil }
        return streams[place].receiving.credit()
    }

    /// Content that has come on all streams and was not taken yet.
    package var held: Int { receiving.held }

    // MARK: Places

    private func index(of id: UInt32) -> Int? {
        var (low, high) = (0, opened.count)
        // Most frames are for a recent stream.
        if let last = opened.last, last.id == id { return high &- 1 }
        while low < high {
            let middle = (low &+ high) &>> 1
            if opened[middle].id < id { low = middle &+ 1 } else { high = middle }
        }
        return low < opened.count && opened[low].id == id ? low : nil
    }

    private mutating func add(_ id: UInt32, isRemoteOpen: Bool) -> Place {
        let stream = Stream(
            id: id,
            isRemoteOpen: isRemoteOpen,
            isLocalOpen: true,
            sending: SendWindow(initialSending),
            // Not yet more than the peer knows of: it would get as much again with its acknowledgement.
            receiving: ReceiveWindow(target: initialReceiving, size: initialReceiving)
        )
        count += 1
        if let place = free.popLast() {
            opened.append(Opened(id: id, place: place))
            streams[place] = stream
            return place
        }
        opened.append(Opened(id: id, place: streams.count))
        streams.append(stream)
        return streams.count - 1
    }

    /// - Returns: Whether the stream is closed.
    private mutating func endRemote(_ place: Place) -> Bool {
        streams[place].isRemoteOpen = false
        guard !streams[place].isLocalOpen else { return false }
        remove(place)
        return true
    }

    /// The peer may have sent more of the stream before it learns of the reset, such as the rest of the same frame. Whatever it is, it
    /// is ignored.
    private mutating func reset(_ place: Place, _ fault: HTTP2Fault) -> Verdict {
        streams[place].isRemoteOpen = true
        remove(place)
        return .streamFault(place, fault)
    }

    private mutating func remove(_ place: Place) {
        let stream = streams[place]
        guard let index = index(of: stream.id) else { return }
        if stream.isRemoteOpen { cut.insert(stream.id) } else { ended.insert(stream.id) }
        opened.remove(at: index)
        count -= 1
        streams[place].id = 0
        free.append(place)
    }

    private func checkInvariants() {
        assert(opened.count == count && count + free.count == streams.count, "A place is lost.")
        assert(zip(opened, opened.dropFirst()).allSatisfy { $0.id < $1.id }, "Streams are not in order.")
        assert(opened.allSatisfy { streams[$0.place].id == $0.id }, "A stream is not at its place.")
        assert(count <= maximumStreams || !peerIsClient, "More streams are open than may be.")
        assert(
            opened.allSatisfy { streams[$0.place].isRemoteOpen || streams[$0.place].isLocalOpen },
            "A stream that is closed has a place."
        )
    }
}

/// The streams that were closed last, in a ring.
private struct RecentStreams: Sendable {
    private var ids: [UInt32] = []
    private var next = 0
    private let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    func contains(_ id: UInt32) -> Bool { ids.contains(id) }

    mutating func insert(_ id: UInt32) {
        guard ids.count == capacity else { return ids.append(id) }
        ids[next] = id
        next = next &+ 1 == capacity ? 0 : next &+ 1
    }
}
