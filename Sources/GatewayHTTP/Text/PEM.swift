/// Keys and certificates as text (RFC 7468).
package enum PEM {
    private static let begin = "-----BEGIN CERTIFICATE-----"
    private static let end = "-----END CERTIFICATE-----"

    /// The content of each certificate, in base64 without line breaks.
    package static func certificates(in text: String) -> [String] {
        var found: [String] = []
        var current: String?
        for line in text.split(whereSeparator: \.isNewline) {
            let line = line.drop { $0 == " " }
            if line.hasPrefix(begin) {
                current = ""
            } else if line.hasPrefix(end) {
                if let current, !current.isEmpty { found.append(current) }
                current = nil
            } else if current != nil {
                current?.append(contentsOf: line.filter { !$0.isWhitespace })
            }
        }
        return found
    }

    /// - Parameter base64: The content of a certificate, without line breaks.
    package static func text(ofCertificate base64: String) -> String {
        var lines = "\(begin)\n"
        var rest = base64[...]
        while !rest.isEmpty {
            lines += rest.prefix(64) + "\n"
            rest = rest.dropFirst(64)
        }
        return lines + "\(end)\n"
    }

    /// What stands behind the first `BEGIN`, made of capitals, digits and spaces only, so that it can be shown.
    package static func label(of text: String) -> String? {
        guard let begin = text.firstRange(of: "-----BEGIN ") else { return nil }
        let rest = text[begin.upperBound...].prefix(40)
        guard let end = rest.firstRange(of: "-----") else { return nil }
        let label = rest[..<end.lowerBound]
        guard label.utf8.allSatisfy({ (0x41...0x5A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x20 }) else {
            return nil
        }
        return String(label)
    }
}
