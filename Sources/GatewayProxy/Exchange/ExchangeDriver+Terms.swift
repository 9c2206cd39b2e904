import GatewayCore
import NIOCore

/// What differs between the responses of a route: URLs, and what a page may read.
extension ExchangeDriver {
    func responseTerms(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseFieldRules.Terms {
        var terms = ResponseFieldRules.Terms()
        if head.hasTransportSecurity { terms.keepsTransportSecurity = client.isIntercepted }
        if let grant = admitted.crossOrigin {
            terms.crossOrigin = grant.lines
            terms.exposesFields = grant.exposesFields
        }
        guard head.hasLinks || head.hasCookies, let links = linkRewriter(),
            let room = links.room(for: head, bytes.readableBytesUInt8Span)
        else { return terms }
        terms.links = links
        terms.room = room
        return terms
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
