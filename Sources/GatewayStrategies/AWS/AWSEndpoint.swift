/// The service and region in the name of an AWS host (docs.aws.amazon.com/general/latest/gr/rande.html).
struct AWSEndpoint: Hashable, Sendable {
    /// As signatures name the service; nil if the host does not name one.
    private(set) var service: String?
    private(set) var region: String?
    /// The host serves more than one region: ``region`` is only the usual one, and nil where there is none.
    private(set) var isGlobal = false
    /// What stands before the service: the bucket in `bucket.s3.eu-west-1.amazonaws.com`. Empty for the service itself.
    private(set) var bucket = ""

    private static let suffixes = [".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu", ".api.aws", ".on.aws"]

    /// The suffixes of partitions without us-east-1.
    private static let otherPartitions = [".amazonaws.com.cn", ".amazonaws.eu"]

    /// The first labels of hosts whose service has another name in signatures. For others, users set the key `service`.
    private static let signingNames = [
        "bedrock-agent": "bedrock", "bedrock-agent-runtime": "bedrock", "bedrock-data-automation": "bedrock",
        "bedrock-data-automation-runtime": "bedrock", "bedrock-runtime": "bedrock", "email": "ses",
        "lambda-url": "lambda", "s3-accelerate": "s3", "s3-accesspoint": "s3", "s3-control": "s3",
    ]

    /// - Parameter authority: May have a port.
    init(_ authority: String) {
        let host = authority.prefix { $0 != ":" }.lowercased()
        guard let suffix = Self.suffixes.first(where: { host.hasSuffix($0) }) else { return }
        var labels = host.dropLast(suffix.count).split(separator: ".").map(String.init)
        if labels.last == "vpce" { Self.dropEndpoint(from: &labels) }
        // It has IPv6.
        labels.removeAll { $0 == "dualstack" }
        guard let last = labels.last else { return }
        if Self.isRegion(last) {
            // `sqs.eu-west-1`
            region = last
            service = labels.dropLast().last.map(Self.signingName)
            bucket = labels.dropLast(2).joined(separator: ".")
        } else if labels.count > 1, Self.isRegion(labels[labels.count - 2]) {
            // `domain.eu-west-1.es`
            region = labels[labels.count - 2]
            service = Self.signingName(last)
        } else if last.hasPrefix("s3-"), Self.isRegion(String(last.dropFirst(3))) {
            // `bucket.s3-eu-west-1`
            region = String(last.dropFirst(3))
            service = "s3"
            bucket = labels.dropLast().joined(separator: ".")
        } else {
            // `sts`, `bucket.s3`
            (region, isGlobal) = (Self.otherPartitions.contains(suffix) ? nil : "us-east-1", true)
            service = Self.signingName(last)
            bucket = labels.dropLast().joined(separator: ".")
        }
    }

    /// Leaves out what names an endpoint of a VPC: `own.bucket.vpce-1a2b.s3.eu-west-1.vpce` leads to the bucket `own`, and
    /// `bucket.vpce-1a2b.s3.eu-west-1.vpce` to all of them (docs.aws.amazon.com/AmazonS3/latest/userguide/privatelink-interface-endpoints.html).
    private static func dropEndpoint(from labels: inout [String]) {
        labels.removeLast()
        guard let id = labels.lastIndex(where: { $0.hasPrefix("vpce-") }) else { return }
        labels.remove(at: id)
        if id > 0, ["accesspoint", "bucket", "control"].contains(labels[id - 1]) { labels.remove(at: id - 1) }
    }

    private static func signingName(_ label: String) -> String {
        let label = label.hasSuffix("-fips") ? String(label.dropLast(5)) : label
        return signingNames[label] ?? (label.hasPrefix("s3express-") ? "s3express" : label)
    }

    /// `eu-west-1`, `us-gov-east-1`
    private static func isRegion(_ label: String) -> Bool {
        let parts = label.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count > 2, let first = parts.first, let last = parts.last else { return false }
        let areLetters = parts.dropLast().allSatisfy { part in
            !part.isEmpty && part.utf8.allSatisfy { (0x61...0x7A).contains($0) }
        }
        return (2...4).contains(first.count) && areLetters && last.count == 1 && last.first?.isNumber ?? false
    }
}
