/// What `authgateway init` writes: a configuration with the services that a person calls.
package enum FirstConfiguration {
    /// Without credentials and routes, which are added to it.
    ///
    /// - Parameters:
    ///   - port: Of the proxy listener; the admin listener has the next one.
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
            # Another address than a loopback one needs access.clients.
            - address: 127.0.0.1:\(port)
          # The status page, and what the commands ask.
          admin: {address: 127.0.0.1:\(port + 1)}

        """
    }

    /// A service without a preset: an `https` URL and a bearer token.
    ///
    /// - Parameters:
    ///   - url: As ``UpstreamURL`` has accepted it.
    ///   - token: Where the token comes from, in YAML.
    package static func entries(name: String, url: String, token: String) -> PresetEntries {
        PresetEntries(
            credential: PresetEntries.Entry(name: name, lines: ["strategy: bearer", "token: \(token)"]),
            routes: [
                PresetEntries.Entry(name: name, lines: ["upstream: \(YAMLScalar.text(url))", "auth: \(name)"])
            ]
        )
    }

    /// A name for the service at a host: `api.github.com` is `github`.
    package static func name(ofHost host: String) -> String {
        let labels = host.split(separator: ".").filter {
            !["api", "www", "com", "org", "net", "io", "dev"].contains($0)
        }
        let name = labels.last { $0.utf8.count > 2 } ?? labels.last ?? "service"
        let plain = name.lowercased().filter { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
        return ConfigName.isValid(plain) ? String(plain.prefix(64)) : "service"
    }
}
