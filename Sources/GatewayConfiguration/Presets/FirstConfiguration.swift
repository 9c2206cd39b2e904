package import GatewayHTTP

/// What `authgateway init` writes: a configuration with the services that a person calls.
package enum FirstConfiguration {
    /// Without credentials and routes, which are added to it.
    ///
    /// - Parameters:
    ///   - port: Port of the proxy listener. The status page uses the next port.
    ///   - command: How to serve the file, as it is typed.
    package static func head(port: Int, command: String) -> String {
        """
        # Adds a valid credential to each request. Serve it:
        #   \(command)
        # Add a service: authgateway add NAME. Find mistakes: authgateway check. A key: authgateway config explain KEY.
        version: 1

        # Tokens, keys and the audit log. Created with mode 0700.
        state_directory: ./state

        listeners:
          proxy:
            # An address other than loopback needs access.clients.
            - address: 127.0.0.1:\(port)
              # Programs with built-in https:// URLs can use it as their proxy: authgateway exec -- PROGRAM. Hosts without a
              # route are passed through, without a credential.
              intercept: true
              connect: {unrouted: tunnel}
          # The status page, which the commands use too.
          admin: {address: 127.0.0.1:\(port + 1)}

        """
    }

    /// The value of `listeners.proxy` for a configuration that has none: the listener of ``head(port:command:)`` at the standard address.
    package static let proxy = ["[{address: 127.0.0.1:8080, intercept: true, connect: {unrouted: tunnel}}]"]

    /// A service without a preset, with a bearer token.
    package struct Service: Sendable {
        package let url: String
        package let host: String
        /// For the credential and the route: `api.example.com` is `example`.
        package let name: String

        package init(url: String) throws(UnusableInput) {
            let upstream = try UpstreamURL(url)
            (self.url, host, name) = (url, upstream.origin.host, FirstConfiguration.name(ofHost: upstream.origin.host))
        }

        /// - Parameter name: Of the credential and the route.
        package func secret(for name: String) -> Preset.RequiredSecret {
            let plain = String(name.uppercased().map { $0.isLetter || $0.isNumber ? $0 : "_" })
            let variable = (plain.first?.isNumber == true ? "_" : "") + plain + "_TOKEN"
            return Preset.RequiredSecret(variable: variable, what: "The token of \(host)", where: nil)
        }

        /// - Parameter token: Where the token comes from, in YAML.
        package func entries(as name: String, token: String) -> PresetEntries {
            PresetEntries(
                credential: PresetEntries.Entry(name: name, lines: ["strategy: bearer", "token: \(token)"]),
                routes: [
                    PresetEntries.Entry(name: name, lines: ["upstream: \(YAMLScalar.literal(url))", "auth: \(name)"])
                ]
            )
        }
    }

    private static func name(ofHost host: String) -> String {
        let common: Set<Substring> = ["api", "www", "com", "org", "net", "io", "dev"]
        let labels = host.split(separator: ".").filter { !common.contains($0) }
        let name = labels.last { $0.utf8.count > 2 } ?? labels.last ?? "service"
        let plain = String(
            name.lowercased().filter { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }.prefix(64)
        )
        return ConfigName.isValid(plain) ? plain : "service"
    }
}
