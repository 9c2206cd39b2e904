import GatewayApp
import Testing

@testable import GatewayHTTP
@testable import GatewayLocalAuthority
@testable import GatewayProxy

@Suite("Trust of this machine", .timeLimit(.minutes(1)))
struct SystemTrustTests {
    private let root = SystemTrust.Root(fingerprint: "0123456789abcdef0123", path: "/s/ca/installed/0.pem")

    @Test func eachSystemHasItsProgram() {
        #expect(SystemTrust.present { $0 == "trust" } == .trust && SystemTrust.present { _ in false } == nil)
        let file = "/usr/local/share/ca-certificates/authgateway-0123456789abcdef.crt"
        let debian = SystemTrust.updateCACertificates
        #expect(debian.install([root]) == [.copy(from: root.path, to: file), .run(["update-ca-certificates"])])
        #expect(debian.uninstall([root]) == [.remove(file), .run(["update-ca-certificates", "--fresh"])])
        #expect(SystemTrust.trust.install([root]) == [.run(["trust", "anchor", "--store", root.path])])
        #expect(SystemTrust.trust.uninstall([root]) == [.run(["trust", "anchor", "--remove", root.path])])
        let keychain = "/Library/Keychains/System.keychain"
        #expect(
            SystemTrust.security.install([root])
                == [.run(["security", "add-trusted-cert", "-d", "-r", "trustRoot", "-k", keychain, root.path])]
        )
        #expect(SystemTrust.security.uninstall([root]) == [.run(["security", "remove-trusted-cert", "-d", root.path])])
        #expect(SystemTrust.installInJava(root, store: "/c").contains("authgateway-0123456789abcdef"))
        #expect(SystemTrust.uninstallFromJava(root, store: "/c").starts(with: ["keytool", "-delete"]))
    }

    @Test func theScopesOfAnAuthorityAreThoseOfItsHosts() {
        let plan = LocalAuthorityPlan(permit: ["example", "deep.example"])
        #expect(plan.scopes(for: ["a.deep.example", "Other.test"]) == ["example", "deep.example", "other.test"])
        #expect(plan.scopes(of: "a.deep.example") == ["a.deep.example", "deep.example"])
        #expect(plan.scopes(of: "notexample") == ["notexample"] && plan.scopes(for: []).isEmpty)
        #expect(LocalAuthorityPlan(isConstrained: false).scopes(for: ["a", "b"]) == ["*"])
    }

    private func finding(_ days: [Int], _ places: [(AuthorityTrust.Place.Kind, Int?)]) -> DoctorFinding? {
        let roots = days.map { day in
            AuthorityTrust.Root(name: "root", endsAt: UnixTime(seconds: Int64(day) * 86_400), fingerprint: "00")
        }
        let trust = AuthorityTrust(roots: roots, places: places.map { AuthorityTrust.Place($0.0, "/p", trusted: $0.1) })
        return LocalAuthorityRule.finding(of: trust, isIntercepting: true, at: UnixTime(seconds: 100 * 86_400))
    }

    @Test func theDoctorSaysWhoTrustsIt() {
        #expect(LocalAuthorityRule.finding(of: nil, isIntercepting: false, at: UnixTime(seconds: 0)) == nil)
        #expect(LocalAuthorityRule.finding(of: nil, isIntercepting: true, at: UnixTime(seconds: 0))?.level == .error)
        #expect(finding([], [])?.text.contains("none yet") == true)
        #expect(finding([99], [])?.level == .error && finding([110], [])?.level == .warning)
        #expect(finding([190], [(.system, 1)])?.text.hasPrefix("trusted by this machine") == true)
        let apart = finding([190], [(.system, 0), (.variable, 1), (.java, nil)])
        #expect(apart?.level == .ok && apart?.remedy?.contains("authgateway exec") == true)
        let partly = finding([190, 191], [(.system, 1)])
        #expect(partly?.level == .warning && partly?.command == "sudo authgateway ca install")
    }

    @Test func aPlaceSaysHowMuchItTrusts() {
        let root = AuthorityTrust.Root(name: "root", endsAt: UnixTime(seconds: 1), fingerprint: "00")
        let trust = AuthorityTrust(roots: [root, root], places: [])
        let states = [nil, 0, 1, 2].map { trust.state(of: AuthorityTrust.Place(.system, "/p", trusted: $0)) }
        #expect(states == ["cannot be read", "not trusted", "trusted in part: 1 of 2", "trusted"])
    }
}
