import GatewayCore
import NIOCore

/// What differs between the responses of a route: URLs, and what a page may read.
extension ExchangeDriver {
    func responseOptions(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseFieldRules.Options {
        var options = ResponseFieldRules.Options()
        if head.hasTransportSecurity { options.keepsTransportSecurity = client.isIntercepted }
        if let grant = admitted.crossOrigin {
            options.crossOrigin = grant.lines
            options.exposesFields = grant.exposesFields
        }
        guard head.hasLinks || head.hasCookies, let links = linkRewriter(),
            let room = links.room(for: head, bytes.readableBytesUInt8Span)
        else { return options }
        options.links = links
        options.room = room
        return options
    }

    /// nil where the client's links are the upstream's.
    func linkRewriter() -> LinkRewriter? {
        guard compiled.plan.rewritesLinks(admitted.match) else { return nil }
        let bytes = client.request.bytes
        return LinkRewriter(
            client.request.decoder.head,
            bytes.readableBytesUInt8Span,
            admitted.match,
            of: shared.links,
            publicURL: client.publicURL,
            isTLS: client.isTLS
        )
    }
}
