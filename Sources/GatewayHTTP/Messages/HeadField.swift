/// One line of a header section: offsets into the bytes it was read from.
///
/// `@usableFromInline`, as all types whose helpers are `@inlinable`: without it, those of a package type are called all the same.
@usableFromInline
package struct HeadField: Hashable, Sendable {
    package let kind: FieldKind
    /// Where the line begins, which is where its name begins.
    @usableFromInline package let start: UInt32
    @usableFromInline let nameEnd: UInt32
    @usableFromInline package let valueStart: UInt32
    @usableFromInline let valueEnd: UInt32
    /// The position after the line's CRLF.
    @usableFromInline package let end: UInt32
    /// It came by HTTP/2 as one that no table may remember, on no hop (RFC 7541 section 6.2.3).
    var isNeverIndexed = false

    @inlinable @inline(__always)
    package var line: Range<Int> { Int(start)..<Int(end) }
    @inlinable @inline(__always)
    package var name: Range<Int> { Int(start)..<Int(nameEnd) }
    /// The value without the whitespace around it.
    @inlinable @inline(__always)
    package var value: Range<Int> { Int(valueStart)..<Int(valueEnd) }
}

/// Fields that the gateway acts upon; everything else is carried unread.
@usableFromInline
package enum FieldKind: UInt8, Sendable {
    case other
    /// `Access-Control-…` (CORS).
    case accessControl
    case altSvc
    case authorization
    case connection
    case contentLength
    case cookie
    case date
    case destination
    case expect
    /// One of ``ForwardedPolicy/names``.
    case forwarded
    case grpcStatus
    case host
    case http2Settings
    case keepAlive
    case origin
    case proxyAuthenticate
    case proxyAuthorization
    case proxyConnection
    case secFetchSite
    case setCookie
    case strictTransportSecurity
    case te
    case transferEncoding
    case upgrade
    /// One of ``uriReferenceNames``.
    case uriReference
    /// Also `Gateway-Loop`, which routes with `via: false` send in its place.
    case via
    case wwwAuthenticate
    case xRequestID

    /// Fields of one connection, never forwarded (RFC 9110 §7.6.1 and the older `Proxy-Connection`).
    ///
    /// `Transfer-Encoding` is not among them: the body is forwarded in the framing it came in.
    @inlinable @inline(__always)
    package var isHopByHop: Bool {
        switch self {
        case .connection, .http2Settings, .keepAlive, .proxyConnection, .proxyAuthenticate, .proxyAuthorization, .te,
            .upgrade:
            true
        case .other, .accessControl, .altSvc, .authorization, .contentLength, .cookie, .date, .destination, .expect,
            .forwarded,
            .grpcStatus, .host, .origin,
            .secFetchSite, .setCookie, .strictTransportSecurity, .transferEncoding, .uriReference, .via,
            .wwwAuthenticate, .xRequestID:
            false
        }
    }

    /// Fields of an HTTP/1 connection, which HTTP/2 does not have (RFC 9113 section 8.2.2). `TE` may say `trailers`.
    package var isForbiddenInHTTP2: Bool {
        switch self {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade: true
        default: false
        }
    }

    /// Fields that a `Connection` option must not take away: the message would change its meaning.
    var cannotBeNominated: Bool {
        switch self {
        case .contentLength, .transferEncoding, .host, .authorization, .expect: true
        case .other, .accessControl, .altSvc, .connection, .cookie, .date, .destination, .forwarded, .grpcStatus,
            .http2Settings, .keepAlive, .origin, .proxyAuthenticate,
            .proxyAuthorization, .proxyConnection, .secFetchSite, .setCookie,
            .strictTransportSecurity, .te, .upgrade, .uriReference, .via,
            .wwwAuthenticate, .xRequestID:
            false
        }
    }

    /// Fields of answers with URIs that may repeat the query of the request, in lower case.
    package static let uriReferenceNames = ["content-location", "link", "location", "refresh"].map { Array($0.utf8) }

    private static let crossOrigin: StaticString = "access-control-"

    /// - Parameter name: In lower case.
    package static func isForwarded(_ name: [UInt8]) -> Bool { classify(name.span, name.indices) == .forwarded }

    /// Names a field by its length first, so that most fields cost at most one comparison. `name` must be a token.
    @inline(__always)
    package static func classify(_ bytes: borrowing Span<UInt8>, _ name: Range<Int>) -> FieldKind {
        switch name.count {
        case 2: bytes.isToken(name, "te") ? .te : .other
        case 3: bytes.isToken(name, "via") ? .via : .other
        case 4:
            bytes.isToken(name, "host")
                ? .host
                : bytes.isToken(name, "date") ? .date : bytes.isToken(name, "link") ? .uriReference : .other
        case 6:
            bytes.isToken(name, "cookie")
                ? .cookie
                : bytes.isToken(name, "expect") ? .expect : bytes.isToken(name, "origin") ? .origin : .other
        case 7:
            bytes.isToken(name, "upgrade")
                ? .upgrade
                : bytes.isToken(name, "refresh")
                    ? .uriReference
                    : bytes.isToken(name, "alt-svc")
                        ? .altSvc : bytes.equalsLowercased(name, "cookie2") ? .cookie : .other
        case 8: bytes.isToken(name, "location") ? .uriReference : .other
        case 9: bytes.isToken(name, "forwarded") || bytes.isToken(name, "x-real-ip") ? .forwarded : .other
        case 10:
            bytes.isToken(name, "connection")
                ? .connection
                : bytes.isToken(name, "keep-alive")
                    ? .keepAlive : bytes.isToken(name, "set-cookie") ? .setCookie : .other
        case 11:
            bytes.isToken(name, "grpc-status")
                ? .grpcStatus
                : bytes.isToken(name, "destination")
                    ? .destination : bytes.equalsLowercased(name, "set-cookie2") ? .setCookie : .other
        case 12: bytes.isToken(name, "x-request-id") ? .xRequestID : bytes.isToken(name, "gateway-loop") ? .via : .other
        case 13: bytes.isToken(name, "authorization") ? .authorization : .other
        case 14:
            bytes.isToken(name, "content-length")
                ? .contentLength
                : bytes.isToken(name, "sec-fetch-site")
                    ? .secFetchSite
                    : bytes.isToken(name, "x-forwarded-by")
                        ? .forwarded : bytes.equalsLowercased(name, "http2-settings") ? .http2Settings : .other
        case 15:
            bytes.isToken(name, "x-forwarded-for") || bytes.isToken(name, "x-forwarded-ssl") ? .forwarded : .other
        case 16:
            bytes.isToken(name, "proxy-connection")
                ? .proxyConnection
                : bytes.isToken(name, "www-authenticate")
                    ? .wwwAuthenticate
                    : bytes.isToken(name, "content-location")
                        ? .uriReference
                        : bytes.isToken(name, "x-forwarded-host") || bytes.isToken(name, "x-forwarded-port")
                            ? .forwarded : .other
        case 17:
            bytes.isToken(name, "transfer-encoding")
                ? .transferEncoding : bytes.isToken(name, "x-forwarded-proto") ? .forwarded : .other
        case 18:
            bytes.isToken(name, "proxy-authenticate")
                ? .proxyAuthenticate
                : bytes.isToken(name, "x-forwarded-prefix") || bytes.isToken(name, "x-forwarded-scheme")
                    || bytes.isToken(name, "x-forwarded-server") ? .forwarded : .other
        case 19: bytes.isToken(name, "proxy-authorization") ? .proxyAuthorization : .other
        case 20: bytes.isToken(name, "x-forwarded-protocol") ? .forwarded : .other
        case 24: bytes.isToken(name, "x-original-forwarded-for") ? .forwarded : .other
        case 25 where bytes.isToken(name, "strict-transport-security"): .strictTransportSecurity
        case 22...:
            bytes.equalsLowercased(name.prefix(crossOrigin.utf8CodeUnitCount), crossOrigin)
                ? .accessControl : .other
        default: .other
        }
    }
}

/// The grammar of field names and values (RFC 9110 §5.1, §5.5), for what we write ourselves.
package enum FieldSyntax {
    /// `token`, RFC 9110 §5.6.2: field names, authentication schemes.
    package static func isToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy(isTokenByte)
    }

    /// Visible ASCII with spaces between; empty and padded values are refused, because a peer would trim them.
    package static func isValue(_ text: String) -> Bool {
        guard let first = text.utf8.first, let last = text.utf8.last, first != 0x20, last != 0x20 else { return false }
        return text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
    }

    /// Hop-by-hop, routing and framing fields (RFC 9110 §7.2, §7.6.1, §8.6; RFC 9112 §6): the gateway writes them itself.
    ///
    /// In lower case.
    package static let reserved: Set<String> = [
        "connection", "content-encoding", "content-length", "expect", "gateway-loop", "host", "http2-settings",
        "keep-alive",
        "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding",
        "upgrade", "via",
    ]

    /// What servers make of a name that turn `_` into `-`, in lower case: names that are equal then can be mistaken for each
    /// other.
    package static func slot(_ name: String) -> String { name.lowercased().replacing("_", with: "-") }

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case 0x21, 0x23, 0x24, 0x25, 0x26, 0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E, 0x5F, 0x60, 0x7C, 0x7E: true
        default: false
        }
    }
}
