/// What the fields of a head mean for the message itself (RFC 9112 section 6, RFC 9110 section 7).
extension RequestHeadDecoder {
    mutating func interpretFields(_ bytes: borrowing Span<UInt8>) -> HeadRefusal? {
        head.host = 0..<0
        head.expectsContinue = false
        head.present = []
        if head.options != ConnectionOptions() { head.options = ConnectionOptions() }
        var declared = DeclaredFraming()
        var hasHost = false
        var hasUpgrade = false
        var offersClearTextHTTP2 = false

        for index in head.section.fields.indices {
            let field = head.section.fields[index]
            switch field.kind {
            case .other, .altSvc, .cookie, .date, .forwarded, .grpcStatus, .http2Settings, .keepAlive, .te,
                .proxyConnection, .proxyAuthenticate, .setCookie, .strictTransportSecurity, .uriReference,
                .wwwAuthenticate:
                break
            case .authorization:
                head.present.insert(head.present.contains(.authorization) ? .secondAuthorization : .authorization)
            case .proxyAuthorization: head.present.insert(.proxyAuthorization)
            case .accessControl: head.present.insert(.accessControl)
            case .destination: head.present.insert(.destination)
            case .origin: head.present.insert(.origin)
            case .secFetchSite: head.present.insert(.secFetchSite)
            case .via: head.present.insert(.via)
            case .xRequestID: head.present.insert(.requestID)
            // HTTP/2 in clear text would carry requests past every rule; its offer is dropped, not forwarded.
            case .upgrade:
                hasUpgrade = true
                offersClearTextHTTP2 = offersClearTextHTTP2 || bytes.containsLowercased(field.value, "h2c")
            case .connection: head.options.add(bytes, field.value)
            case .host:
                guard !hasHost else { return .duplicateHost }
                hasHost = true
                head.host = field.value
            case .contentLength:
                if let reason = declared.addContentLength(bytes, field) { return reason }
            case .transferEncoding:
                if let reason = declared.addTransferEncoding(bytes, field) { return reason }
            case .expect:
                guard bytes.equalsLowercased(field.value, "100-continue") else { return .invalidExpectation }
                // HTTP/1.0 has no such expectation (RFC 9110 §10.1.1).
                head.expectsContinue = !head.isHTTP10
            }
        }

        if let reason = declared.conflict(isHTTP10: head.isHTTP10) { return reason }
        if head.section.hasFramingLookAlike(bytes) { return .framingLookAlike }
        head.framing =
            declared.isChunked ? .chunked : declared.contentLength.map { $0 == 0 ? .none : .length($0) } ?? .none
        head.wantsUpgrade = hasUpgrade && !offersClearTextHTTP2 && head.options.upgrade && !head.isHTTP10
        if !head.options.nominated.isEmpty, let reason = refuseNominations() { return reason }
        if head.form == .authority, head.framing != .none { return .connectWithContent }
        return checkHost(bytes, hasHost: hasHost)
    }

    /// A client that lists a framing field, Host, Expect or Authorization in `Connection` wants the upstream to see another
    /// message than the one we judged.
    private func refuseNominations() -> HeadRefusal? {
        // Each is compared with each field.
        if head.options.nominatesTooMany { return .tooManyNominated }
        for name in head.options.nominated {
            let kind = FieldKind.classify(name.span, 0..<name.count)
            if kind.cannotBeNominated { return .frameNominated }
        }
        return nil
    }

    /// Some clients leave the port of a CONNECT out of its Host.
    private func isTargetWithoutPort(_ bytes: borrowing Span<UInt8>) -> Bool {
        guard head.form == .authority, head.host.count < head.targetAuthority.count else { return false }
        return bytes[head.targetAuthority.lowerBound + head.host.count] == 0x3A
            && Authority(bytes, head.targetAuthority)?.host.lowerBound == head.targetAuthority.lowerBound
    }

    private mutating func checkHost(_ bytes: borrowing Span<UInt8>, hasHost: Bool) -> HeadRefusal? {
        guard hasHost else { return head.isHTTP10 ? nil : .missingHost }
        if head.host.isEmpty, head.form != .absolute { return .invalidHost }
        for index in head.host where !bytes[index].isAuthorityByte { return .invalidHost }
        guard head.form == .absolute || head.form == .authority else { return nil }
        // RFC 9112 §3.2.2 lets the target win; two answers to "which host" are how requests get smuggled.
        guard head.host.count == head.targetAuthority.count || isTargetWithoutPort(bytes) else { return .hostMismatch }
        for offset in 0..<head.host.count {
            let (a, b) = (bytes[head.host.lowerBound + offset], bytes[head.targetAuthority.lowerBound + offset])
            guard a.asciiLowercased == b.asciiLowercased else { return .hostMismatch }
        }
        return nil
    }
}
