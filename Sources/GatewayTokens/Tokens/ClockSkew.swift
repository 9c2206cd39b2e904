package import GatewayHTTP

/// How far an authorization server's clock is from ours, by the `Date` of its answers (RFC 9110 section 6.6.1).
package enum ClockSkew {
    /// A difference of this or more is reported: signed assertions are refused, and the expiry of tokens is misjudged.
    fileprivate static let notableSeconds = 5
    /// Below this they agree again.
    fileprivate static let settledSeconds = 3

    /// The authorization server's clock minus ours.
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

    /// What people are told, and how to fix it; nil if the clocks agree well enough.
    package static func advice(_ seconds: Int) -> String? {
        guard seconds.magnitude >= notableSeconds else { return nil }
        return
            "This machine's clock is \(words(seconds))'s. Signed assertions (JWT) may be refused, and the expiry of tokens"
            + " is misjudged. Set the clock: timedatectl set-ntp true"
    }

    /// Where our clock is: `8 s behind the authorization server`.
    package static func words(_ seconds: Int) -> String {
        "\(seconds.magnitude) s \(seconds > 0 ? "behind" : "ahead of") the authorization server"
    }
}

/// By how much the dates of signatures differ from this machine's clock, once an upstream has refused a signature for its date.
package enum SignatureDate {
    /// A forged `Date` must not let its sender choose when signatures are valid.
    package static let mostSeconds = 15 * 60
    /// The largest difference that a service accepts (docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html,
    /// RequestTimeTooSkewed).
    private static let tolerance = 15 * 60

    package enum Correction: Hashable, Sendable {
        /// Date signatures this far from our clock from now on, and send the request again.
        case change(to: Int)
        /// Another request has caused the same correction. Send this one again if it was sent before that.
        case isMade
        /// The clocks differ too much.
        case outOfReach
        /// Another date would not help.
        case useless
    }

    /// - Parameters:
    ///   - measured: The upstream's clock minus ours, in seconds.
    ///   - present: By how much they differ from our clock now.
    ///   - least: The smallest difference that explains the refusal.
    package static func correction(by measured: Int, from present: Int, least: Int) -> Correction {
        let wanted = min(max(measured, -mostSeconds), mostSeconds)
        guard (measured - wanted).magnitude < tolerance else { return .outOfReach }
        if (wanted - present).magnitude >= least { return .change(to: wanted) }
        return wanted.magnitude >= least ? .isMade : .useless
    }

    /// What the log says, and how to fix it.
    package static func advice(_ measured: Int) -> String {
        let direction = measured > 0 ? "behind" : "ahead of"
        return
            "This machine's clock is \(measured.magnitude) s \(direction) the upstream's. The gateway corrects the dates of signatures by at"
            + " most \(mostSeconds / 60) minutes. Set the clock: timedatectl set-ntp true"
    }
}

/// What is known about the clocks of authorization servers, and what people were told about them.
struct ClockSkewRecord: Sendable {
    /// What a measurement changes for people.
    enum Change: Hashable, Sendable {
        /// The clocks differ, or by another amount than was told.
        case differs
        case agrees
    }

    private struct Entry {
        var seconds: Int
        /// nil while people need not care.
        var told: Int?
    }

    /// How many authorization servers are kept: more than a configuration has.
    static let limit = 1024

    private var entries: [Origin: Entry] = [:]

    /// - Parameter seconds: See ``ClockSkew/seconds(in:sentAt:receivedAt:)``.
    /// - Returns: nil when there is nothing new to tell.
    mutating func take(_ seconds: Int, of authority: Origin) -> Change? {
        guard entries[authority] != nil || entries.count < Self.limit else { return nil }
        let told = entries[authority]?.told
        let change = Self.change(from: told, to: seconds)
        let nowTold: Int? =
            switch change {
            case .differs: seconds
            case .agrees: nil
            case nil: told
            }
        entries[authority] = Entry(seconds: seconds, told: nowTold)
        return change
    }

    private static func change(from told: Int?, to seconds: Int) -> Change? {
        guard let told else { return seconds.magnitude >= ClockSkew.notableSeconds ? .differs : nil }
        if seconds.magnitude < ClockSkew.settledSeconds { return .agrees }
        return (seconds - told).magnitude >= ClockSkew.notableSeconds ? .differs : nil
    }

    /// The largest of these authorization servers; nil when it is unknown, or when the clocks agree.
    func seconds(of authorities: some Sequence<Origin>) -> Int? {
        let known = authorities.compactMap { entries[$0]?.seconds }.filter { $0 != 0 }
        return known.max { $0.magnitude < $1.magnitude }
    }
}
