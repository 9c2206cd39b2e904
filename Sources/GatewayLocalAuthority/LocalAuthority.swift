package import Crypto
import Foundation
package import GatewayFiles
package import GatewayHTTP
package import GatewayProxy
import SwiftASN1
import Synchronization
import X509

/// Signs certificates for the hosts of routes, so that programs of this machine that trust it take the gateway for these hosts.
///
/// Its keys can sign for nothing else: a root signs one intermediate for each host, which is constrained to that host, and the key of
/// the root is thrown away. A host that is new gets a second root beside the first.
package final class LocalAuthority: LeafAuthority {
    /// Before it expires, a root has a successor, which people have to trust first.
    package static let overlap: Duration = .seconds(14 * 86_400)

    private struct Signer: Sendable {
        let endsAt: UnixTime
        let certificate: Certificate
        let der: [UInt8]
        let key: P256.Signing.PrivateKey
    }

    private struct State {
        /// nil before it was read.
        var stored: AuthorityFile.Content?
        /// By host, the one first that ends first.
        var signers: [String: [Signer]] = [:]
        var plan = LocalAuthorityPlan()
    }

    private let file: AuthorityFile
    private let clock: any GatewayClock
    private let state = Mutex(State())
    private let rotations = Atomic(0)

    /// Reads nothing, and signs for no host before ``cover(_:)``.
    ///
    /// - Parameters:
    ///   - stateDirectory: Its files are in the folder `ca`, which is made with the first certificate.
    ///   - key: Seals the keys that stay.
    package init(stateDirectory: String, key: SymmetricKey, clock: any GatewayClock) {
        file = AuthorityFile(folder: stateDirectory + "/ca", key: key)
        self.clock = clock
    }

    /// Where the certificates are that people have to trust, in PEM.
    package static func bundlePath(in stateDirectory: String) -> String { stateDirectory + "/ca/ca.pem" }

    /// Makes sure that the authority can sign for these hosts. To be repeated daily: certificates end.
    ///
    /// - Throws: ``StateError`` that names the file and what to do.
    /// - Returns: The hosts and suffixes for which a new root was made. Clients do not trust it yet.
    @discardableResult
    package func cover(
        _ hosts: [String],
        as plan: LocalAuthorityPlan = LocalAuthorityPlan()
    ) throws(StateError) -> [String] {
        try cover(hosts, as: plan, keepsRoots: true)
    }

    /// Replaces the authority with a new one. The old one signs nothing from now on.
    ///
    /// - Returns: The hosts and suffixes that clients do not trust it for yet.
    package func rotate(_ hosts: [String], as plan: LocalAuthorityPlan) throws(StateError) -> [String] {
        let covered = try cover(hosts, as: plan, keepsRoots: false)
        rotations.add(1, ordering: .sequentiallyConsistent)
        return covered
    }

    /// Certificates that were made before it has changed are not to be used.
    package var generation: Int { rotations.load(ordering: .relaxed) }

    private func cover(
        _ hosts: [String],
        as plan: LocalAuthorityPlan,
        keepsRoots: Bool
    ) throws(StateError) -> [String] {
        let scopes = plan.scopes(for: hosts)
        guard !scopes.isEmpty else { return [] }
        let now = clock.now().wall
        do {
            return try state.withLock { state in
                var stored = try state.stored ?? file.read()
                let valid = keepsRoots ? stored.roots.filter { $0.endsAt > now && $0.isAllowed(by: plan) } : []
                let overlap = min(Self.overlap, .seconds(86_400 * plan.days / 3))
                let held = Set(valid.filter { $0.endsAt > now + overlap }.flatMap { $0.intermediates.keys })
                let missing = scopes.subtracting(held).sorted()
                let isChanged = !missing.isEmpty || valid.count < stored.roots.count
                stored.roots = valid
                if !missing.isEmpty { stored.roots.append(try Self.root(for: missing, at: now, days: plan.days)) }
                if isChanged { try file.write(stored) }
                try file.writeBundle(of: stored)
                state.signers = try Self.signers(of: stored)
                state.stored = stored
                state.plan = plan
                return missing
            }
        } catch let error as StateError {
            throw error
        } catch {
            throw StateError("the local CA in \(file.folder) cannot be used: \(error)")
        }
    }

    package func leaf(for host: String) throws(StateError) -> LeafCertificate {
        guard let signer = signer(of: host) else { throw StateError("the local CA may not sign for \(host)") }
        let key = P256.Signing.PrivateKey()
        do {
            let now = clock.now().wall
            let leaf = try AuthorityCertificates.leaf(
                for: host,
                key,
                signedBy: (signer.certificate, signer.key),
                at: now
            )
            let end = UnixTime(seconds: Int64(leaf.notValidAfter.timeIntervalSince1970))
            return LeafCertificate(
                chain: [try Self.der(leaf), signer.der],
                privateKey: Secret(key.pemRepresentation),
                renewsAt: now + (end - now) / 2
            )
        } catch {
            throw StateError("no certificate for \(host) can be made: \(error)")
        }
    }

    /// What signs for a host; nil where nothing may.
    func signer(of host: String) -> (certificate: Certificate, key: P256.Signing.PrivateKey, der: [UInt8])? {
        let now = clock.now().wall
        let found = state.withLock { state -> Signer? in
            for scope in state.plan.scopes(of: host) {
                if let signer = state.signers[scope]?.first(where: { $0.endsAt > now }) { return signer }
            }
            return nil
        }
        return found.map { ($0.certificate, $0.key, $0.der) }
    }

    /// One for each host, under a root whose key is not kept.
    private static func root(for hosts: [String], at now: UnixTime, days: Int) throws -> AuthorityFile.Root {
        let life = Duration.seconds(days * 86_400)
        let key = P256.Signing.PrivateKey()
        let certificate = try AuthorityCertificates.root(key, from: now, for: life)
        var intermediates: [String: AuthorityFile.Intermediate] = [:]
        for host in hosts {
            let own = P256.Signing.PrivateKey()
            let signed = try AuthorityCertificates.intermediate(for: host, own, signedBy: (certificate, key))
            intermediates[host] = AuthorityFile.Intermediate(
                certificate: Data(try der(signed)),
                key: own.rawRepresentation
            )
        }
        return AuthorityFile.Root(
            certificate: Data(try der(certificate)),
            endsAt: now + life,
            intermediates: intermediates
        )
    }

    /// The oldest root that still holds is what programs trust already.
    private static func signers(of stored: AuthorityFile.Content) throws -> [String: [Signer]] {
        var signers: [String: [Signer]] = [:]
        for root in stored.roots {
            for (host, intermediate) in root.intermediates {
                signers[host, default: []]
                    .append(
                        Signer(
                            endsAt: root.endsAt,
                            certificate: try Certificate(derEncoded: Array(intermediate.certificate)),
                            der: Array(intermediate.certificate),
                            key: try P256.Signing.PrivateKey(rawRepresentation: intermediate.key)
                        )
                    )
            }
        }
        return signers
    }

    private static func der(_ certificate: Certificate) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }
}
