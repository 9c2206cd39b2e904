"""What a gateway shows to authorities that know their clients by a certificate."""

from .tls import openssl


def show(authority, folder, name, passphrase=None):
    """What the gateway shows: a certificate and its key, under names that do not change."""
    certificate, key = authority.issue(name, f"DNS:{name}", usage="clientAuth")
    (folder / "client.pem").write_text(certificate.read_text())
    mine = folder / "client-key.pem"
    mine.touch(mode=0o600)
    mine.write_text(key.read_text())
    if passphrase:
        openssl("pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", key, "-out", mine, "-passout", f"pass:{passphrase}")


def mutual(certificate_authority, **more):
    return {
        "certificate": "client.pem",
        "private_key": {"file": "client-key.pem"},
        "ca": str(certificate_authority.certificate),
        **more,
    }
