/// Certificates in PEM, in one file: those that a program trusted before, then those of the local authority.
package enum TrustBundle {
    /// What stands between both. Readers skip what is no certificate.
    package static let mark = "# The local authority of AuthGateway:"

    private static let begin = "-----BEGIN CERTIFICATE-----"
    private static let end = "-----END CERTIFICATE-----"

    /// - Parameters:
    ///   - earlier: The texts of files; what the local authority has added to one of them is left out.
    ///   - own: The certificates of the local authority.
    package static func merged(_ earlier: [String], own: String) -> String {
        let known = Set(certificates(in: own))
        var seen: Set<String> = known
        var text = ""
        for certificate in earlier.flatMap({ certificates(in: beforeMark($0)) }) where seen.insert(certificate).inserted
        {
            text += pem(certificate)
        }
        return text + added(own)
    }

    /// The bundle with the present certificates of the local authority in the place of its earlier ones; nil for a text that is no
    /// such bundle.
    package static func renewed(_ bundle: String, own: String) -> String? {
        guard bundle.contains(mark) else { return nil }
        return beforeMark(bundle) + added(own)
    }

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
                current?.append(contentsOf: line.filter { $0 != " " })
            }
        }
        return found
    }

    private static func beforeMark(_ text: String) -> String {
        text.firstRange(of: mark).map { String(text[..<$0.lowerBound]) } ?? text
    }

    private static func added(_ own: String) -> String { mark + "\n" + certificates(in: own).map(pem).joined() }

    private static func pem(_ base64: String) -> String {
        var lines = "\(begin)\n"
        var rest = base64[...]
        while !rest.isEmpty {
            lines += rest.prefix(64) + "\n"
            rest = rest.dropFirst(64)
        }
        return lines + "\(end)\n"
    }
}
