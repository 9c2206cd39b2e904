/// Whether a 101 switches to a protocol that the request offered (RFC 9110 section 7.8).
package enum UpgradeRule {
    package static func isOffered(
        by request: borrowing RequestHead,
        _ requestBytes: borrowing Span<UInt8>,
        _ response: borrowing ResponseHead,
        _ responseBytes: borrowing Span<UInt8>
    ) -> Bool {
        guard request.wantsUpgrade else { return false }
        let offered = protocols(request.fields, requestBytes)
        let chosen = protocols(response.fields, responseBytes)
        return !chosen.isEmpty && chosen.allSatisfy { offered.contains($0) }
    }

    private static func protocols(_ fields: [HeadField], _ bytes: borrowing Span<UInt8>) -> [String] {
        var protocols: [String] = []
        for field in fields where field.kind == .upgrade {
            protocols += bytes.string(field.value).lowercased().split { ", \t".contains($0) }.map(String.init)
        }
        return protocols
    }
}
