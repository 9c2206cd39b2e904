import GatewayHTTP

/// A head is read the same however it arrives, and what is accepted has no line break within a field.
func fuzzRequestHead(_ bytes: [UInt8]) {
    var whole = RequestHeadDecoder(maxBytes: 512, maxFields: 16)
    let result = describe(whole.decode(bytes.span))

    var dribbling = RequestHeadDecoder(maxBytes: 512, maxFields: 16)
    var last = "needMore"
    for end in bytes.indices where last == "needMore" {
        last = describe(dribbling.decode(Array(bytes[...end]).span))
    }
    precondition(last == result)
    precondition(dribbling.head.isHead == whole.head.isHead)
    // Where neither meets the limit, which the empty line that is taken counts towards no longer.
    if bytes.count < 500 {
        precondition(readTakingEmptyLine(bytes) == (result, result == "head" ? whole.head.end : 0))
    }
    if result == "head" {
        precondition(dribbling.head.end == whole.head.end)
        for field in whole.head.fields {
            for index in field.value {
                precondition(bytes[index] != 0x0A && bytes[index] != 0x0D && bytes[index] != 0x00)
            }
            for index in field.name { precondition(bytes[index].isTokenByte) }
        }
    }
}

/// As a connection does whose reads bring one byte each.
private func readTakingEmptyLine(_ bytes: [UInt8]) -> (String, Int) {
    var decoder = RequestHeadDecoder(maxBytes: 512, maxFields: 16)
    var start = 0
    for end in bytes.indices {
        let result = describe(decoder.decode(Array(bytes[start...end]).span))
        guard result == "needMore" else { return (result, result == "head" ? start + decoder.head.end : 0) }
        start += decoder.takeEmptyLine()
    }
    return ("needMore", 0)
}

private func describe(_ result: RequestHeadDecoder.DecodeResult) -> String {
    switch result {
    case .needMore: "needMore"
    case .head: "head"
    case .refused: "refused"
    }
}
