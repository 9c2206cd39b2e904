/// One token of a client, as an operator sees it.
package struct ClientTokenStatus: Hashable, Sendable, Codable {
    package var client: String
    /// Its place in the configuration, from 1.
    package var number: Int
    /// RFC 3339; nil where it was not used since the gateway started.
    package var lastUsedAt: String?

    package init(client: String, number: Int, lastUsedAt: String?) {
        self.client = client
        self.number = number
        self.lastUsedAt = lastUsedAt
    }
}
