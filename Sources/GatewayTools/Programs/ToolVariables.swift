import GatewayConfiguration
import GatewayHTTP
import GatewayLocalAuthority

/// What SDKs and command-line tools get in place of their API keys, so that they start without one.
///
/// The value is a token that only this gateway knows, and only while the program runs. Tools send it where they would send their key,
/// and the gateway puts the real one there.
struct ToolVariables {
    /// The token of one run.
    struct Token {
        let value: Secret
        /// Whether it proves to the gateway which client this is. Otherwise it only lets tools start.
        let isKnown: Bool

        init(known value: Secret) {
            self.value = value
            isKnown = true
        }

        /// A random placeholder that proves no client.
        init() {
            value = Secret(Hexadecimal.random(bytes: 32))
            isKnown = false
        }
    }

    /// The variable that tells a nested run which keys are tokens of the run around it.
    static let marker = "AUTHGATEWAY_RUN_TOKEN"

    private let offer: ProxyOffer
    private let endpoint: ProxyEndpoint
    private let token: Token
    private let kept: Set<String>

    private(set) var variables: [ClientEnvironment.Variable] = []
    /// The names of the variables with a key that the program does not get.
    private(set) var replaced: [String] = []
    /// The names of the variables with the URL of a route, for programs that ignore the proxy.
    private(set) var urls: [String] = []
    /// The hosts of git without a route with a credential, for which credential helpers would hand out the token of the run.
    private(set) var gitHosts: [String] = []
    /// What to tell the person who starts the program.
    private(set) var warnings: [String] = []

    /// - Parameters:
    ///   - kept: The names of variables that stay as they are.
    ///   - usesPaths: The program does not use the proxy, so its tools have to be told where the gateway is.
    ///   - own: Looks up a variable of the present environment.
    init(
        _ presets: [Preset],
        _ offer: ProxyOffer,
        at endpoint: ProxyEndpoint,
        token: Token,
        keeping kept: Set<String> = [],
        usesPaths: Bool = false,
        own: (String) -> String?
    ) {
        self.offer = offer
        self.endpoint = endpoint
        self.token = token
        self.kept = kept
        for service in offer.services ?? [] {
            for preset in presets where !preset.tools.isEmpty && preset.leads(to: service.origin) {
                guard !leadsElsewhere(preset, own) else { continue }
                addKeys(of: preset, own)
                addURLs(of: preset, service.path, usesPaths, own)
            }
        }
        addGitHelpers(for: presets, own)
    }

    /// Whether a request that does not come through the proxy is admitted with the token.
    private var isAdmitted: Bool { token.isKnown || !endpoint.requiresClientToken }

    /// Whether a base URL in the environment is for another server, and so is the key. Warns about it.
    private mutating func leadsElsewhere(_ preset: Preset, _ own: (String) -> String?) -> Bool {
        for tool in preset.tools where tool.basePath != nil {
            guard let url = own(tool.name), !url.isEmpty else { continue }
            switch Self.place(of: url, offer) {
            case .service: continue
            case .gateway where isAdmitted: continue
            case .gateway, .elsewhere:
                warnings.append(
                    "\(tool.name) names a server that no route with a credential leads to, so the program may call it "
                        + "directly; its key stays as it is"
                )
                return true
            }
        }
        return false
    }

    private mutating func addKeys(of preset: Preset, _ own: (String) -> String?) {
        var hasAdded = false
        for tool in preset.tools where tool.basePath == nil && mayAdd(tool) {
            let before = own(tool.name) ?? ""
            guard !before.isEmpty || tool.occasion == .always else { continue }
            add(tool, token.value.withValue { tool.prefix + $0 })
            hasAdded = true
            let isOurs = own(Self.marker).map { before == tool.prefix + $0 } ?? false
            if !before.isEmpty, !isOurs { replaced.append(tool.name) }
        }
        guard hasAdded, !variables.contains(where: { $0.name == Self.marker }) else { return }
        variables.append(ClientEnvironment.Variable(name: Self.marker, value: token.value.withValue { $0 }))
    }

    /// - Parameter route: The path of the route; nil where it has none.
    private mutating func addURLs(
        of preset: Preset,
        _ route: String?,
        _ usesPaths: Bool,
        _ own: (String) -> String?
    ) {
        for tool in preset.tools where mayAdd(tool) && (usesPaths || tool.occasion == .always) {
            guard let path = tool.basePath, own(tool.name)?.isEmpty ?? true else { continue }
            guard let route, isAdmitted else {
                warnings.append(
                    "programs that read \(tool.name) ignore the proxy and may call \(preset.title) directly, with a key that is "
                        + "invalid there; set \(tool.name) to the URL of the route"
                )
                continue
            }
            add(tool, endpoint.url() + [route, path].filter { $0 != "/" }.joined())
            urls.append(tool.name)
        }
    }

    /// Keeps the keys away from git if a tool such as `gh` is its credential helper and the host has no route with a credential. Git would
    /// otherwise send the token of the run there, instead of the login that the tool has stored.
    private mutating func addGitHelpers(for presets: [Preset], _ own: (String) -> String?) {
        let added = Set(variables.map(\.name))
        let keys = presets.flatMap(\.tools).filter { $0.gitHost != nil && added.contains($0.name) }
        gitHosts = Set(keys.compactMap(\.gitHost)).sorted().filter { host in
            !(offer.services ?? []).contains { $0.origin == "https://\(host)" }
        }
        let helpers = gitHosts.map { host in
            GitHelper(host: host, hidden: Set(keys.filter { $0.gitHost == host }.map(\.name)).sorted())
        }
        guard !kept.contains(GitHelper.count) else { return }
        variables += GitHelper.variables(helpers, own)
    }

    private func mayAdd(_ tool: Preset.ToolVariable) -> Bool {
        !kept.contains(tool.name) && !variables.contains { $0.name == tool.name }
    }

    /// What the person who starts the program may want to know.
    var notices: [String] {
        var notices: [String] = []
        if !urls.isEmpty {
            let verb = urls.count == 1 ? "points" : "point"
            notices.append("\(urls.joined(separator: ", ")) \(verb) the program to the gateway")
        }
        if !replaced.isEmpty {
            notices.append(
                "the program gets a token for this run in place of \(replaced.joined(separator: ", ")) (--keep-env NAME passes one on)"
            )
        }
        return notices
    }

    private mutating func add(_ tool: Preset.ToolVariable, _ value: String) {
        variables.append(ClientEnvironment.Variable(name: tool.name, value: value))
    }

    private enum Place {
        case service
        /// A listener of the gateway, which finds the route by the path.
        case gateway
        case elsewhere
    }

    private static func place(of url: String, _ offer: ProxyOffer) -> Place {
        guard let end = url.firstRange(of: "://"),
            let scheme = Origin.Scheme(rawValue: url[..<end.lowerBound].lowercased()),
            let origin = Origin(
                scheme: scheme,
                authority: String(url[end.upperBound...].prefix { !"/?#".contains($0) })
            )
        else { return .elsewhere }
        if offer.services?.contains(where: { $0.origin == origin.description }) ?? false { return .service }
        let isOurs = offer.endpoints.contains {
            $0.origin.port == origin.port && $0.origin.isLoopback && origin.isLoopback
        }
        return isOurs ? .gateway : .elsewhere
    }
}

/// A credential helper of git that calls the user's own helpers without some variables in their environment.
struct GitHelper {
    let host: String
    /// The names of these variables.
    let hidden: [String]

    /// How many settings git reads from the environment (git-config(1), since 2.31).
    static let count = "GIT_CONFIG_COUNT"

    /// - Parameter before: The number of settings that the environment has without this one.
    private func text(before: Int) -> String {
        "!f() { unset \(hidden.joined(separator: " ")); \(Self.count)=\(before); "
            + "case $1 in get) set fill ;; store) set approve ;; erase) set reject ;; *) exit ;; esac; git credential \"$1\"; }; f"
    }

    /// Settings that follow those in the environment.
    ///
    /// - Returns: Nothing if git could not read its settings anyway.
    static func variables(_ helpers: [GitHelper], _ own: (String) -> String?) -> [ClientEnvironment.Variable] {
        let text = own(count).flatMap { $0.isEmpty ? nil : $0 } ?? "0"
        guard !helpers.isEmpty, let before = Int(text), (0...1024).contains(before) else { return [] }
        // An empty value removes the helpers that were configured before (gitcredentials(7)).
        let values = helpers.flatMap { helper in
            ["", helper.text(before: before)].map { ("credential.https://\(helper.host).helper", $0) }
        }
        let settings = values.enumerated().flatMap { index, setting in
            [
                ClientEnvironment.Variable(name: "GIT_CONFIG_KEY_\(before + index)", value: setting.0),
                ClientEnvironment.Variable(name: "GIT_CONFIG_VALUE_\(before + index)", value: setting.1),
            ]
        }
        return settings + [ClientEnvironment.Variable(name: count, value: "\(before + values.count)")]
    }
}
