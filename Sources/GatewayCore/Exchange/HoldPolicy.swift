/// Decides whether the content of a request is kept for a second try.
package enum HoldPolicy {
    /// Whether a second try may come at all.
    ///
    /// - Parameter isRenewable: The credential can be replaced without a person.
    package static func holds(isIdempotent: Bool, isRenewable: Bool) -> Bool { isIdempotent || isRenewable }

    /// Whether what has come fits into what is kept of one request. Too much ends the holding, not the upload.
    package static func fits(_ count: Int, behind held: Int, limit: Int) -> Bool { held + count <= limit }
}
