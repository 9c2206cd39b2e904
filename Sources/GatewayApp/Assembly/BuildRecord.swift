import CBuildRecord
import FoundationEssentials

/// What a release build has written into the program.
package struct BuildRecord: Hashable, Codable {
    /// The name of the commit, with `-modified` behind it where files differed from it.
    package var commit: String?
    /// RFC 3339.
    package var commitDate: String?
    package var toolchain: String?
    package var target: String?
    /// Whether the optimizer had the profile of the request path (docs/internals/adr/0021).
    package var profile: Bool?

    /// The record of this program; empty if it is not a release.
    package static var current: BuildRecord { BuildRecord(unsafe String(cString: authgateway_build_record())) }

    /// What is not a record counts as none.
    init(_ text: String) {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        self = (try? decoder.decode(BuildRecord.self, from: Data(text.utf8))) ?? BuildRecord()
    }

    init() {}
}

/// What `authgateway version` and the status page print.
package enum GatewayVersion {
    package static let current = "0.1.0"
}
