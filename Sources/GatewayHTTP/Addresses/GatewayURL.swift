/// The gateway as a client sees it.
package struct GatewayURL: Hashable, Sendable {
    /// nil where a request names no host.
    package let origin: Origin?
    /// Stands before the paths of routes: empty, or `/gateway` without a slash at the end.
    package let path: [UInt8]

    package init(origin: Origin?, path: [UInt8] = []) {
        self.origin = origin
        self.path = path
    }

    package var text: String { (origin?.description ?? "") + String(decoding: path, as: UTF8.self) }
}
