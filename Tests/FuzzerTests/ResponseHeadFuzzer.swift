import GatewayHTTP

/// A head is read the same however it arrives, and no accepted one splits a response.
func fuzzResponseHead(_ bytes: [UInt8]) {
    for answersHead in [false, true] {
        var whole = ResponseHeadDecoder(maxBytes: 512, maxFields: 16)
        let result = describe(whole.decode(bytes.span, answersHead: answersHead))
        var dribbling = ResponseHeadDecoder(maxBytes: 512, maxFields: 16)
        var last = "needMore"
        for end in bytes.indices where last == "needMore" {
            last = describe(dribbling.decode(Array(bytes[...end]).span, answersHead: answersHead))
        }
        precondition(last == result)
        if result == "head" {
            precondition(dribbling.head.end == whole.head.end)
            precondition((100...999).contains(whole.head.status))
            for field in whole.head.fields {
                for index in field.value {
                    precondition(bytes[index] != 0x0A && bytes[index] != 0x0D && bytes[index] != 0x00)
                }
                for index in field.name { precondition(bytes[index].isTokenByte) }
            }
        }
    }
}

private func describe(_ result: ResponseHeadDecoder.DecodeResult) -> String {
    switch result {
    case .needMore: "needMore"
    case .head: "head"
    case .refused: "refused"
    }
}
