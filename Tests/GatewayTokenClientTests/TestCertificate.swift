import NIOSSL

/// Certificates of their own issuer, valid from 2020 to 2120; worth nothing outside these tests.
enum TestCertificate {
    /// For the address 127.0.0.1 and no name.
    static let loopback = """
        -----BEGIN CERTIFICATE-----
        MIIBhjCCASygAwIBAgIBATAKBggqhkjOPQQDAjApMScwJQYDVQQDDB5BdXRoR2F0
        ZXdheSB0b2tlbiBjbGllbnQgdGVzdHMwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAx
        MDEwMDAwMDBaMCkxJzAlBgNVBAMMHkF1dGhHYXRld2F5IHRva2VuIGNsaWVudCB0
        ZXN0czBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJ3n/TEAfYBjopL6Wq4eh0VH
        09VJE/NkIG+yEGZmEKMPye3HEvSKadijLk3fAegYmBo9C5xiQXp66KcqIFq86nGj
        QzBBMA8GA1UdEwEB/wQFMAMBAf8wDwYDVR0RBAgwBocEfwAAATAdBgNVHQ4EFgQU
        /BRI6iM2evca5PpwzMRud/V56/owCgYIKoZIzj0EAwIDSAAwRQIgMFEU3QSq4glQ
        rbrjyyCVncteX0UHm7Wc42HoUtl+9OoCIQCeD9+32h6W7GFhq9VoZT8JbC/jaFed
        BT5z6eTXwpjPnQ==
        -----END CERTIFICATE-----
        """

    /// For the name `id.example` alone.
    static let foreign = """
        -----BEGIN CERTIFICATE-----
        MIIBjDCCATKgAwIBAgIBAjAKBggqhkjOPQQDAjApMScwJQYDVQQDDB5BdXRoR2F0
        ZXdheSB0b2tlbiBjbGllbnQgdGVzdHMwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAx
        MDEwMDAwMDBaMCkxJzAlBgNVBAMMHkF1dGhHYXRld2F5IHRva2VuIGNsaWVudCB0
        ZXN0czBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJ3n/TEAfYBjopL6Wq4eh0VH
        09VJE/NkIG+yEGZmEKMPye3HEvSKadijLk3fAegYmBo9C5xiQXp66KcqIFq86nGj
        STBHMA8GA1UdEwEB/wQFMAMBAf8wFQYDVR0RBA4wDIIKaWQuZXhhbXBsZTAdBgNV
        HQ4EFgQU/BRI6iM2evca5PpwzMRud/V56/owCgYIKoZIzj0EAwIDSAAwRQIgJ08I
        42ZHakkAOZ5mET1hDVV4EduNmBDeHLSTk+W6VvwCIQDT+tpJ9Y/sRgNTOqTsbJXa
        nbgS0WncqR7xDy/ZBTpIqA==
        -----END CERTIFICATE-----
        """

    private static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgp2+xEdc+8x0UhQBr
        4HLF/5UfRg3UeDN8tmOdg527sKqhRANCAASd5/0xAH2AY6KS+lquHodFR9PVSRPz
        ZCBvshBmZhCjD8ntxxL0imnYoy5N3wHoGJgaPQucYkF6euinKiBavOpx
        -----END PRIVATE KEY-----
        """

    static func serverConfiguration(_ certificate: String) throws -> TLSConfiguration {
        let certificates = try NIOSSLCertificate.fromPEMBytes(Array(certificate.utf8))
        return .makeServerConfiguration(
            certificateChain: certificates.map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.utf8), format: .pem))
        )
    }
}
