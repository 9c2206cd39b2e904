import GatewayHTTP
import GatewayTokens

/// The cookies that a user agent holds after one answer (RFC 6265 sections 5.2 to 5.4).
struct ReceivedCookies {
    private struct Cookie {
        let name: String
        /// Without spaces and tabs around it, and otherwise as it was sent: quotes are part of a value.
        let value: [UInt8]
        /// nil for the host that has answered.
        var domain: String?
        var path: String
        var isOver = false
    }

    private var cookies: [Cookie] = []

    /// - Parameter url: What was asked; a cookie of another domain is not taken.
    init(_ reply: TokenReply, from url: AuthorityURL?, at now: UnixTime) {
        for field in reply.fields where field.name.lowercased() == "set-cookie" {
            guard var cookie = Self.cookie(field.value, from: url, at: now) else { continue }
            if let host = url?.origin.host {
                guard Self.host(host, isWithin: cookie.domain ?? host) else { continue }
                cookie.domain = cookie.domain ?? host
            }
            cookies.removeAll { $0.name == cookie.name && $0.domain == cookie.domain && $0.path == cookie.path }
            if !cookie.isOver { cookies.append(cookie) }
        }
    }

    /// Where several cookies have the name, that of the widest path: it goes with most requests. Of those, the last one set.
    func value(of name: String) -> [UInt8]? {
        cookies.filter { $0.name == name }.reversed().min { $0.path.utf8.count < $1.path.utf8.count }?.value
    }

    private static func cookie(_ text: String, from url: AuthorityURL?, at now: UnixTime) -> Cookie? {
        let parts = text.split(separator: ";", omittingEmptySubsequences: false)
        guard let (name, value) = parts.first.flatMap(pair), let value, !name.isEmpty else { return nil }
        var cookie = Cookie(name: String(name), value: Array(value.utf8), path: defaultPath(of: url))
        var (end, maxAge): (UnixTime?, Int64?)
        for part in parts.dropFirst() {
            guard let (name, value) = pair(part) else { continue }
            let text = value ?? ""
            switch name.lowercased() {
            case "expires": end = UnixTime(cookieDate: String(text)) ?? end
            case "max-age": maxAge = seconds(text) ?? maxAge
            case "domain" where !text.isEmpty:
                cookie.domain = (text.hasPrefix(".") ? text.dropFirst() : text).lowercased()
            case "path": cookie.path = text.hasPrefix("/") ? String(text) : defaultPath(of: url)
            default: break
            }
        }
        cookie.isOver = maxAge.map { $0 <= 0 } ?? end.map { $0 <= now } ?? false
        return cookie
    }

    private static func pair(_ part: Substring) -> (name: Substring, value: Substring?)? {
        let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(trimmed)
        return sides.first.map { ($0, sides.count == 2 ? sides[1] : nil) }
    }

    private static func trimmed(_ text: Substring) -> Substring {
        let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
        let start = text.drop(while: isBlank)
        return start.lastIndex { !isBlank($0) }.map { start[...$0] } ?? ""
    }

    /// As many digits as one likes: more than fit is very long, or long over.
    private static func seconds(_ text: Substring) -> Int64? {
        let digits = text.hasPrefix("-") ? text.dropFirst() : text
        guard !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int64(text) ?? (text.hasPrefix("-") ? .min : .max)
    }

    /// Section 5.1.4.
    private static func defaultPath(of url: AuthorityURL?) -> String {
        guard let path = url?.target.prefix(while: { $0 != "?" }) else { return "/" }
        guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return "/" }
        return String(path[..<slash])
    }

    /// Section 5.1.3.
    private static func host(_ host: String, isWithin domain: String) -> Bool {
        host == domain || host.hasSuffix(".\(domain)") && !host.contains(":") && host.last?.isNumber != true
    }
}
