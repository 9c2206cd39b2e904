import GatewayHTTP

/// Field blocks of one connection, each behind a byte with its length. What is kept is a section of HTTP/1 without a line break in a field,
/// the same whatever the table of fields held before, and comes back the same when it is written and read again.
func fuzzFieldBlock(_ bytes: [UInt8]) {
    var (decoder, used) = (FieldBlockDecoder(tableSize: 256), HTTP2FieldTable())
    var start = 0
    while start < bytes.count {
        let end = min(bytes.count, start + 1 + Int(bytes[start]))
        let block = Array(bytes[start + 1..<end])
        start = end
        let message: HTTP2FieldTable.Message =
            switch block.count % 3 {
            case 0: .trailers
            case 1: .response
            default: .request
            }
        var (other, fresh) = (decoder, HTTP2FieldTable())
        let isDecoded = decode(block, message, &decoder, &used)
        precondition(decode(block, message, &other, &fresh) == isDecoded)
        guard isDecoded else { return }
        precondition(used.bytes[..<used.end] == fresh.bytes[..<fresh.end] && used.pseudo == fresh.pseudo)
        precondition(used.section.fields == fresh.section.fields && used.malformation == fresh.malformation)
        precondition(used.refusal == fresh.refusal && used.listSize == fresh.listSize)
        guard used.malformation == nil, used.refusal == nil else { continue }
        checkSection(used)
        checkWriter(used)
    }
}

private let limit = 512

private func decode(
    _ block: [UInt8],
    _ message: HTTP2FieldTable.Message,
    _ decoder: inout FieldBlockDecoder,
    _ fields: inout HTTP2FieldTable
) -> Bool {
    fields.begin(message, maxBytes: limit, maxFields: 16)
    do throws(HTTP2Fault) {
        try decoder.decode(block.span, into: &fields, maxBytes: limit)
        return true
    } catch {
        return false
    }
}

/// The decoder of HTTP/1 finds the same fields in the same lines.
private func checkSection(_ fields: HTTP2FieldTable) {
    let line = Array("GET / HTTP/1.1\r\n".utf8)
    let head = line + fields.bytes[fields.start..<fields.end]
    var decoder = RequestHeadDecoder(maxBytes: 2 * limit, maxFields: 16)
    switch decoder.decode(head.span) {
    case .needMore: preconditionFailure("The section does not end.")
    case .refused(let reason):
        precondition(
            ![.bareLineFeed, .foldedLine, .invalidFieldName, .invalidFieldValue, .headTooLarge, .tooManyFields]
                .contains(reason)
        )
    case .head: break
    }
    let found = decoder.head.fields
    precondition(found.count == fields.section.fields.count)
    for (one, other) in zip(found, fields.section.fields) {
        precondition(one.kind == other.kind && head[one.line].elementsEqual(fields.bytes[other.line]))
        precondition(head[one.value].elementsEqual(fields.bytes[other.value]))
    }
}

private func checkWriter(_ fields: HTTP2FieldTable) {
    let room = fields.section.fields.reduce(HTTP2FrameWriter.roomForBlock) {
        $0 + HTTP2FrameWriter.room(for: $1.name.count, $1.value.count)
    }
    var isComplete = false
    let frame = unsafe [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
        var writer = unsafe HTTP2FrameWriter(UnsafeMutableRawBufferPointer(buffer))
        writer.beginFields(stream: 1, isFirst: true)
        for field in fields.section.fields { writer.field(fields.bytes.span, field) }
        writer.endFields(isLast: true)
        (count, isComplete) = (writer.count, writer.isComplete)
    }
    precondition(isComplete)
    var (decoder, read) = (FieldBlockDecoder(), HTTP2FieldTable())
    precondition(decode(Array(frame[HTTP2FrameHeader.size...]), .trailers, &decoder, &read))
    precondition(read.bytes[read.start..<read.end] == fields.bytes[fields.start..<fields.end])
}
