package import GatewayHTTP

/// How far an authority's clock is from ours, by the `Date` of its answers (RFC 9110 section 6.6.1).
package enum ClockSkew {
    /// From here on people are told: signed assertions are refused, and the ends of tokens are misjudged.
    package static let notableSeconds = 5
    /// Below this they agree again.
    static let settledSeconds = 3

    /// The authority's clock minus ours.
    ///
    /// `Date` has whole seconds, and the moment within the call is unknown. A difference that this explains counts as 0.
    ///
    /// - Returns: nil when the answer does not tell.
    package static func seconds(in reply: TokenReply, sentAt start: Moment, receivedAt end: Moment) -> Int? {
        // A stored answer tells when it was stored.
        guard reply.field("Age") == nil, let date = reply.field("Date").flatMap({ UnixTime(httpDate: $0) }) else {
            return nil
        }
        let half = max(end.monotonic - start.monotonic, .zero) / 2
        let middle = end.wall + (.zero - half)
        let difference = date + .milliseconds(500) - middle
        let noise = max(half + .seconds(1), .seconds(2))
        guard difference > noise || .zero - difference > noise else { return 0 }
        return Int((Double(difference.wholeMilliseconds) / 1000 - 0.5).rounded(.up))
    }

    /// What people are told, and how they mend it; nil where the clocks agree well enough.
    package static func advice(_ seconds: Int) -> String? {
        guard seconds.magnitude >= notableSeconds else { return nil }
        return
            "The clock of this machine is \(words(seconds))'s. Signed assertions (JWT) may be refused, and the ends of tokens"
            + " are misjudged. Set the clock: timedatectl set-ntp true"
    }

    /// Where our clock is: `8 s behind the authority`.
    package static func words(_ seconds: Int) -> String {
        "\(seconds.magnitude) s \(seconds > 0 ? "behind" : "ahead of") the authority"
    }
}
