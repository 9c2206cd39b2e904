package import GatewayHTTP

/// How a described request comes to the gateway: by which listener, and with which target.
package struct ListenerMatch: Hashable, Sendable {
    package enum Form: String, Hashable, Sendable, Codable {
        /// To the gateway itself: the target is a path.
        case direct
        /// The gateway is the client's forward proxy: the target is a whole URL.
        case proxy
        /// The gateway is to open a tunnel.
        case connect
    }

    package let form: Form
    package let listener: BoundListener
    /// What `Host` says.
    package let host: String
    package var remarks: [String] = []

    init(form: Form, listener: BoundListener, host: String) {
        self.form = form
        self.listener = listener
        self.host = host
    }

    /// - Parameters:
    ///   - listeners: At least one.
    ///   - knowsHost: Whether routes have this host name.
    ///   - isUpstream: Whether routes have their upstream at this host and port.
    package init?(
        of request: DescribedRequest,
        to listeners: [BoundListener],
        knowsHost: (String) -> Bool,
        isUpstream: (Origin) -> Bool = { _ in false }
    ) {
        guard let standard = listeners.first(where: { $0.port != nil && !$0.isTLS }) ?? listeners.first else {
            return nil
        }
        let url = request.url
        if let proxy = request.proxy {
            form = url.scheme == .https ? .connect : .proxy
            host = request.host ?? (url.scheme == .https ? url.tunnelAuthority : url.authority)
            let found = Origin(scheme: .http, authority: proxy).flatMap { origin in
                listeners.first { $0.isMeant(by: origin) }
            }
            listener = found ?? standard
            if found == nil {
                let shown = ShownText.clean(proxy, limit: 80)
                remarks.append(
                    "The proxy \(shown) is not a listener of this gateway; \(standard.text) is used instead."
                )
            }
            return
        }
        if let socket = request.socket, let found = listeners.first(where: { $0.isSocket(socket) }) {
            (form, listener) = (.direct, found)
            host = request.host ?? url.authority
            return
        }
        guard let origin = url.origin else {
            (form, listener) = (.direct, standard)
            host = request.host ?? (url.authority.isEmpty ? standard.authority : url.authority)
            return
        }
        if let found = listeners.first(where: { $0.isMeant(by: origin) }) {
            (form, listener) = (.direct, found)
            host = request.host ?? url.authority
            if found.isTLS != (url.scheme == .https) {
                remarks.append("The listener speaks \(found.isTLS ? "https" : "http"); the URL says otherwise.")
            }
        } else if knowsHost(origin.host) {
            form = .direct
            listener = listeners.first { $0.port == origin.port } ?? standard
            host = request.host ?? url.authority
        } else if let found = listeners.first(where: { $0.mayHaveName(in: origin) }), !isUpstream(origin) {
            (form, listener) = (.direct, found)
            host = request.host ?? url.authority
        } else {
            (form, listener) = (.proxy, standard)
            host = url.authority
        }
    }

    // MARK: Head

    /// The head of the request as it comes in.
    ///
    /// - Parameter length: The length of the content; nil where it is not known.
    package func head(of request: DescribedRequest, contentLength length: Int?) -> String {
        let version = request.isHTTP10 ? "1.0" : "1.1"
        let method = form == .connect ? "CONNECT" : request.method
        var lines = ["\(method) \(target(of: request)) HTTP/\(version)", "Host: \(host)"]
        lines += request.fields.map { "\($0.name): \($0.value)" }
        if !request.content.isEmpty, !request.fields.contains(where: { Self.frames($0.name) }) {
            lines.append(length.map { "Content-Length: \($0)" } ?? "Transfer-Encoding: chunked")
        }
        return lines.joined(separator: "\r\n") + "\r\n\r\n"
    }

    /// The head of the request as it comes behind a CONNECT.
    func interceptedHead(of request: DescribedRequest, contentLength length: Int?) -> String {
        var direct = ListenerMatch(form: .direct, listener: listener, host: request.host ?? request.url.authority)
        direct.remarks = remarks
        return direct.head(of: request, contentLength: length)
    }

    private static func frames(_ name: String) -> Bool {
        ["content-length", "transfer-encoding"].contains(name.lowercased())
    }

    package func target(of request: DescribedRequest) -> String {
        if let target = request.target { return target }
        let url = request.url
        let path = url.path.isEmpty ? "/" : url.path
        return switch form {
        case .direct: path + url.query
        case .proxy: "\((url.scheme ?? .http).rawValue)://\(host)\(path)\(url.query)"
        case .connect: url.tunnelAuthority
        }
    }
}

extension RequestURL {
    /// With its port, as CONNECT names it.
    fileprivate var tunnelAuthority: String { origin?.hostAndPort ?? authority }
}
