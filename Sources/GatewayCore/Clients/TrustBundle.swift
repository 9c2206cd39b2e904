/// Certificates in PEM, in one file: those that a program trusted before, then those of the local authority.
package enum TrustBundle {
    /// What stands between both. Readers skip what is no certificate.
    package static let mark = "# The local authority of AuthGateway:"

    /// - Parameters:
    ///   - earlier: The texts of files; what the local authority has added to one of them is left out.
    ///   - own: The certificates of the local authority.
    package static func merged(_ earlier: [String], own: String) -> String {
        let known = Set(PEM.certificates(in: own))
        var seen: Set<String> = known
        var text = ""
        for certificate in earlier.flatMap({ PEM.certificates(in: beforeMark($0)) })
        where seen.insert(certificate).inserted {
            text += PEM.text(ofCertificate: certificate)
        }
        return text + added(own)
    }

    /// The bundle with the present certificates of the local authority in the place of its earlier ones; nil for a text that is no
    /// such bundle.
    package static func renewed(_ bundle: String, own: String) -> String? {
        guard bundle.contains(mark) else { return nil }
        return beforeMark(bundle) + added(own)
    }

    private static func beforeMark(_ text: String) -> String {
        text.firstRange(of: mark).map { String(text[..<$0.lowerBound]) } ?? text
    }

    private static func added(_ own: String) -> String {
        mark + "\n" + PEM.certificates(in: own).map(PEM.text).joined()
    }
}
