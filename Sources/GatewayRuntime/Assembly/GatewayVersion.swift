/// What `authgateway version` and the status page print.
package enum GatewayVersion {
    package static let current = "0.1.0"
}
