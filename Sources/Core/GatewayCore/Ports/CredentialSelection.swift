/// Where the request path takes credentials from when a field of the request says whose it is.
///
/// Every call returns at once and may be made on an event loop.
package protocol CredentialSelection: AnyObject, Sendable {
    /// The name from the configuration.
    var name: String { get }
    var strategy: String { get }

    /// The name of the field, which is not forwarded.
    var field: String { get }

    /// - Parameter subject: As the request names it, unchecked.
    func source(for subject: String) -> Result<any CredentialSource, GatewayProblem>
}
