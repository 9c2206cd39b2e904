import GatewayCore

extension TokenReply {
    /// `Retry-After` as seconds (fractions are seen in the field) or as a date (RFC 9110 §10.2.3).
    ///
    /// nil for anything else. Held at one hour: a typing error of the authority must not stop the gateway for a year.
    func retryAfter(at now: Moment) -> Duration? {
        guard let text = field("Retry-After")?.trimmed else { return nil }
        let wait: Duration
        if let date = UnixTime(httpDate: text) {
            wait = date - now.wall
        } else {
            let isNumber = text.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == UInt8(ascii: ".") }
            guard isNumber, let seconds = Double(text) else { return nil }
            wait = .milliseconds(Int64(min(seconds, 3600) * 1000))
        }
        return min(max(wait, .zero), .seconds(3600))
    }
}

extension String {
    fileprivate var trimmed: String {
        let isBlank = { (character: Character) in character == " " || character == "\t" }
        let start = drop(while: isBlank)
        guard let last = start.lastIndex(where: { !isBlank($0) }) else { return "" }
        return String(start[...last])
    }
}
