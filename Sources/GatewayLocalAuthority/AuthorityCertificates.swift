import Crypto
import Foundation
import GatewayHTTP
import GatewayProxy
import SwiftASN1
import X509

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// What the certificates of the local authority say.
///
/// Clients differ in what they check. Java and Node ignore the constraints of a root, and heed those of an intermediate; OpenSSL in
/// strict mode, which Python uses, wants key identifiers, and a critical name in a certificate without a subject.
enum AuthorityCertificates {
    /// Certificates begin before now: clocks differ.
    static let backdate: Duration = .seconds(-300)
    private static let leafLife: Duration = .seconds(7 * 86_400)

    /// Signs the intermediates of one time; its key is thrown away then.
    static func root(_ key: P256.Signing.PrivateKey, from start: UnixTime, for life: Duration) throws -> Certificate {
        let name = try DistinguishedName {
            OrganizationName("AuthGateway")
            CommonName("AuthGateway local authority \(start.rfc3339.prefix(10)) \(identifier())")
        }
        let key = Certificate.PrivateKey(key)
        return try Certificate(
            version: .v3,
            serialNumber: Certificate.SerialNumber(),
            publicKey: key.publicKey,
            notValidBefore: (start + backdate).date,
            notValidAfter: (start + life).date,
            issuer: name,
            subject: name,
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 1))
                Critical(KeyUsage(keyCertSign: true, cRLSign: true))
                SubjectKeyIdentifier(hash: key.publicKey)
            },
            issuerPrivateKey: key
        )
    }

    /// May sign for one host, and for the names below it.
    static func intermediate(
        for host: String,
        _ key: P256.Signing.PrivateKey,
        signedBy root: (certificate: Certificate, key: P256.Signing.PrivateKey)
    ) throws -> Certificate {
        let key = Certificate.PrivateKey(key)
        let isAny = host == LocalAuthorityPlan.anyHost
        return try Certificate(
            version: .v3,
            serialNumber: Certificate.SerialNumber(),
            publicKey: key.publicKey,
            notValidBefore: root.certificate.notValidBefore,
            notValidAfter: root.certificate.notValidAfter,
            issuer: root.certificate.subject,
            subject: try DistinguishedName {
                OrganizationName("AuthGateway")
                CommonName("AuthGateway for \(isAny ? "any host" : String(host.prefix(40))) \(identifier())")
            },
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                Critical(KeyUsage(keyCertSign: true, cRLSign: true))
                try ExtendedKeyUsage([.serverAuth])
                SubjectKeyIdentifier(hash: key.publicKey)
                try issuer(root.certificate)
                if !isAny { Critical(try constraints(of: host)) }
            },
            issuerPrivateKey: Certificate.PrivateKey(root.key)
        )
    }

    static func leaf(
        for host: String,
        _ key: P256.Signing.PrivateKey,
        signedBy issuer: (certificate: Certificate, key: P256.Signing.PrivateKey),
        at now: UnixTime
    ) throws -> Certificate {
        let key = Certificate.PrivateKey(key)
        let name: GeneralName = if let address = IPBytes(host) { .ipAddress(address.octets) } else { .dnsName(host) }
        return try Certificate(
            version: .v3,
            serialNumber: Certificate.SerialNumber(),
            publicKey: key.publicKey,
            notValidBefore: max((now + backdate).date, issuer.certificate.notValidBefore),
            notValidAfter: min((now + leafLife).date, issuer.certificate.notValidAfter),
            issuer: issuer.certificate.subject,
            subject: DistinguishedName(),
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                Critical(KeyUsage(digitalSignature: true))
                try ExtendedKeyUsage([.serverAuth])
                Critical(SubjectAlternativeNames([name]))
                SubjectKeyIdentifier(hash: key.publicKey)
                try Self.issuer(issuer.certificate)
            },
            issuerPrivateKey: Certificate.PrivateKey(issuer.key)
        )
    }

    /// No address at all for a name; for an address, that one alone.
    private static func constraints(of host: String) throws -> NameConstraints {
        let all = [4, 16].map { ASN1OctetString(contentBytes: ArraySlice([UInt8](repeating: 0, count: 2 * $0))) }
        guard let address = IPBytes(host) else {
            return NameConstraints(permittedDNSDomains: [host], excludedIPRanges: all)
        }
        let mask = [UInt8](repeating: 0xFF, count: address.bytes.count)
        let range = ASN1OctetString(contentBytes: ArraySlice(address.bytes + mask))
        return NameConstraints(permittedDNSDomains: ["invalid"], permittedIPRanges: [range])
    }

    private static func issuer(_ certificate: Certificate) throws -> AuthorityKeyIdentifier {
        AuthorityKeyIdentifier(keyIdentifier: try certificate.extensions.subjectKeyIdentifier?.keyIdentifier)
    }

    /// Two roots of one day must not have one name.
    private static func identifier() -> String { String(UInt32.random(in: .min ... .max), radix: 36) }

    /// The bytes of an address that is written as one.
    private struct IPBytes {
        let bytes: [UInt8]

        init?(_ text: String) {
            guard let bytes = IPAddressText.bytes(text) else { return nil }
            self.bytes = bytes
        }

        var octets: ASN1OctetString { ASN1OctetString(contentBytes: ArraySlice(bytes)) }
    }
}

extension UnixTime {
    fileprivate var date: Date { Date(timeIntervalSince1970: Double(milliseconds / 1000)) }
}

enum IPAddressText {
    /// The bytes of an address that is written as one, without brackets; nil for a name.
    static func bytes(_ text: String) -> [UInt8]? {
        bytes(text, AF_INET, count: 4) ?? bytes(text, AF_INET6, count: 16)
    }

    private static func bytes(_ text: String, _ family: Int32, count: Int) -> [UInt8]? {
        var found = [UInt8](repeating: 0, count: count)
        let isAddress = unsafe found.withUnsafeMutableBytes { bytes in
            unsafe inet_pton(family, text, bytes.baseAddress) == 1
        }
        return isAddress ? found : nil
    }
}
