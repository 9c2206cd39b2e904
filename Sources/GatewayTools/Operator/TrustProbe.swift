import Foundation
import GatewayApp
import GatewayFiles
import GatewayHTTP
import GatewayLocalAuthority

/// Looks for the certificates of the local CA where programs of this machine find theirs.
struct TrustProbe: Sendable {
    private static let limit = 64 << 20

    let stateDirectory: String

    /// - Throws: ``StateError`` when the authority cannot be read.
    func look() throws(StateError) -> AuthorityTrust {
        let roots = try AuthorityRoots.read(in: stateDirectory)
        var trust = AuthorityTrust(roots: roots.map(\.root), places: [])
        guard !roots.isEmpty else { return trust }
        if let system = ClientTrustFiles.systemBundles.first(where: { FileIdentity($0) != nil }) {
            trust.places.append(AuthorityTrust.Place(.system, system, trusted: Self.count(roots, inPEM: system)))
        }
        for store in Self.javaStores() {
            trust.places.append(AuthorityTrust.Place(.java, store, trusted: Self.count(roots, inStore: store)))
        }
        for name in ClientEnvironment.bundleNames + ClientEnvironment.additionNames {
            guard let path = Console.environment(name), !path.isEmpty else { continue }
            trust.places.append(AuthorityTrust.Place(.variable, name, trusted: Self.count(roots, inPEM: path)))
        }
        return trust
    }

    /// The trust stores that the Javas of this machine come with, each once.
    static func javaStores() -> [String] {
        let homes = [Console.environment("JAVA_HOME"), ProgramSearch.path(of: "java").map(Self.home)].compactMap(\.self)
        let candidates = ["/etc/ssl/certs/java/cacerts"] + homes.map { $0 + "/lib/security/cacerts" }
        var found: [String] = []
        for path in candidates where FileIdentity(path) != nil {
            let real = URL(filePath: path).resolvingSymlinksInPath().path(percentEncoded: false)
            if !found.contains(real) { found.append(real) }
        }
        return found
    }

    /// `/usr/lib/jvm/java-17` of `/usr/lib/jvm/java-17/bin/java`.
    private static func home(of java: String) -> String {
        URL(filePath: java).resolvingSymlinksInPath().deletingLastPathComponent().deletingLastPathComponent()
            .path(percentEncoded: false).trimmingSlash
    }

    private static func count(_ roots: [AuthorityRoots.Root], inPEM path: String) -> Int? {
        guard let bytes = try? BoundedFile.read(path, limit: limit).bytes else { return nil }
        let known = Set(PEM.certificates(in: String(decoding: bytes, as: UTF8.self)))
        return roots.count { known.contains(Base64.encode($0.der)) }
    }

    /// Java's stores hold certificates as they are.
    private static func count(_ roots: [AuthorityRoots.Root], inStore path: String) -> Int? {
        guard let bytes = try? BoundedFile.read(path, limit: limit).bytes else { return nil }
        let data = Data(bytes)
        return roots.count { data.range(of: Data($0.der)) != nil }
    }
}

/// Finds programs in the folders of `PATH`.
enum ProgramSearch {
    static func path(of name: String) -> String? {
        (Console.environment("PATH") ?? "/usr/sbin:/usr/bin:/sbin:/bin").split(separator: ":").map { "\($0)/\(name)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }
}

extension String {
    fileprivate var trimmingSlash: String { hasSuffix("/") ? String(dropLast()) : self }
}
