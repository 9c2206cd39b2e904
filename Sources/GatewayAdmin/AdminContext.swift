import GatewayCore
import Hummingbird
import NIOCore

/// What a request of the admin listener came with.
struct AdminContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel
    /// Of the connection.
    var peer: PeerIdentity?
    /// Of the fields of the request and its connection.
    var evidence = AdminAuthorizer.Evidence.none
    /// Whether who sent the request may still see what it asks for. For an answer that goes on after a reload.
    var maySeeOn: @Sendable () async -> Bool = { true }

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }
}
