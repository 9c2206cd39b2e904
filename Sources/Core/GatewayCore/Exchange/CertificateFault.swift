/// Why an upstream's certificate was refused, as far as the certificate itself shows it.
package enum CertificateFault: Hashable, Sendable {
    case expired(at: UnixTime)
    case notYetValid(from: UnixTime)
    /// No certificate authority that is trusted here has issued it.
    case untrusted

    package init(validFrom start: UnixTime, to end: UnixTime, now: UnixTime) {
        if now > end {
            self = .expired(at: end)
        } else if now < start {
            self = .notYetValid(from: start)
        } else {
            self = .untrusted
        }
    }

    /// What happened, and what to do.
    package func text(of origin: Origin) -> String {
        switch self {
        case .expired(let end):
            "The certificate of \(origin) expired on \(end.rfc3339.prefix(10)). Its owner has to renew it."
        case .notYetValid(let start):
            "The certificate of \(origin) is not valid before \(start.rfc3339). Is the clock of this machine right?"
        case .untrusted:
            "The certificate of \(origin) is not trusted. If it comes from an authority of your own, name it in the "
                + "route's tls.ca."
        }
    }
}
