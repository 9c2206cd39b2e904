/// The options of curl that change the request, and those that are known not to.
enum CurlOption: Hashable {
    case method
    case head
    case field
    case data(DataForm)
    case get
    case json
    case upload
    case form
    case user
    case bearer
    case userAgent
    case referer
    case cookie
    case range
    case compressed
    case url
    case target
    case asIs
    case http10
    case proxy
    case proxyUser
    case proxyField
    case socket
    /// Changes nothing that the gateway sees.
    case other(hasArgument: Bool)
    /// Says where curl connects to, which the explanation decides by itself.
    case connection

    enum DataForm: Hashable {
        /// `@FILE` is read without its line breaks.
        case text
        case raw
        /// `@FILE` is read as it is.
        case binary
        case urlEncoded
    }

    var hasArgument: Bool {
        switch self {
        case .head, .get, .compressed, .asIs, .http10: false
        case .other(let hasArgument): hasArgument
        default: true
        }
    }

    /// - Parameter name: With its hyphens.
    init?(_ name: String) {
        if let found = Self.changing[name] {
            self = found
        } else if Self.flags.contains(name) || name.hasPrefix("--no-") {
            self = .other(hasArgument: false)
        } else if Self.options.contains(name) {
            self = .other(hasArgument: true)
        } else {
            return nil
        }
    }

    private static let changing: [String: CurlOption] = [
        "-X": .method, "--request": .method, "-I": .head, "--head": .head, "-H": .field, "--header": .field,
        "-d": .data(.text), "--data": .data(.text), "--data-ascii": .data(.text), "--data-raw": .data(.raw),
        "--data-binary": .data(.binary), "--data-urlencode": .data(.urlEncoded), "-G": .get, "--get": .get,
        "--json": .json, "-T": .upload, "--upload-file": .upload, "-F": .form, "--form": .form, "--form-string": .form,
        "-u": .user, "--user": .user, "--oauth2-bearer": .bearer, "-A": .userAgent, "--user-agent": .userAgent,
        "-e": .referer, "--referer": .referer, "-b": .cookie, "--cookie": .cookie, "-r": .range, "--range": .range,
        "--compressed": .compressed, "--url": .url, "--request-target": .target, "--path-as-is": .asIs,
        "-0": .http10, "--http1.0": .http10, "-x": .proxy, "--proxy": .proxy, "--proxy1.0": .proxy,
        "-U": .proxyUser, "--proxy-user": .proxyUser, "--proxy-header": .proxyField, "--unix-socket": .socket,
        "--resolve": .connection, "--connect-to": .connection,
    ]

    private static let flags: Set<String> = [
        "-s", "--silent", "-S", "--show-error", "-v", "--verbose", "-i", "--include", "-L", "--location",
        "--location-trusted", "-k", "--insecure", "-f", "--fail", "--fail-with-body", "-g", "--globoff", "-N",
        "-O", "--remote-name", "-J", "--remote-header-name", "-q", "--disable", "-#", "--progress-bar", "-4", "--ipv4",
        "-6", "--ipv6", "--http1.1", "--http2", "--http2-prior-knowledge", "--http3", "--raw", "--tcp-nodelay",
        "--tlsv1.2", "--tlsv1.3", "-Z", "--parallel", "--fail-early", "-j", "--junk-session-cookies", "--ssl-reqd",
        "--retry-all-errors", "--retry-connrefused", "-a", "--append", "--basic", "--proxy-basic", "--styled-output",
        "--create-dirs", "--tcp-fastopen", "--proxy-insecure", "--http0.9", "-R", "--remote-time", "--post301",
        "--post302", "--post303",
    ]

    private static let options: Set<String> = [
        "-o", "--output", "--output-dir", "-w", "--write-out", "-m", "--max-time", "--connect-timeout", "--retry",
        "--retry-delay", "--retry-max-time", "-D", "--dump-header", "-c", "--cookie-jar", "--cacert", "--capath", "-E",
        "--cert", "--cert-type", "--key", "--key-type", "--pass", "--ciphers", "--interface", "--limit-rate",
        "--max-redirs", "--max-filesize", "--noproxy", "--keepalive-time", "--stderr", "--trace", "--trace-ascii",
        "-y", "--speed-time", "-Y", "--speed-limit", "--dns-servers", "--local-port", "--pinnedpubkey", "--tls-max",
        "--curves", "--expect100-timeout", "--rate", "--proxy-cacert", "--happy-eyeballs-timeout-ms",
    ]
}
