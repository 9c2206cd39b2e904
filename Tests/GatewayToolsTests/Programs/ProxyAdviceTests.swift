import Testing

@testable import GatewayTools

@Suite("Programs that ignore the proxy", .timeLimit(.minutes(1)))
struct ProxyAdviceTests {
    private func warning(
        _ command: [String],
        interpreter: String? = nil,
        node: String? = nil,
        hasToken: Bool = false
    ) -> String? {
        ProxyAdvice(command: command, interpreter: interpreter)
            .warning(node: node.flatMap { ProxyAdvice.NodeVersion($0) }, hasToken: hasToken)
    }

    @Test(arguments: [
        (["gh", "repo", "clone", "a/b"], true), (["/usr/bin/gh", "pr", "checkout", "7"], true),
        (["gh", "repo", "view"], false), (["gh", "pr", "list"], false), (["gh"], false), (["gh", "repo"], false),
        (["git", "repo", "clone"], false),
    ])
    func ghGivesGitATokenOfItsOwn(_ command: [String], _ isWarned: Bool) {
        let advice = ProxyAdvice(command: command)
        #expect((advice.gitWarning(for: ["github.com"])?.contains("https://github.com") == true) == isWarned)
        #expect(advice.gitWarning(for: []) == nil)
    }

    @Test(arguments: [
        ("v18.20.4\n", "ignores"), ("v22.20.9", "ignores"), ("v22.21.0", nil), ("v22.23.1", nil),
        ("v23.11.1", "ignores"),
        ("v24.0.0", "fetch only"), ("v24.4.1", "fetch only"), ("v24.5.0", nil), ("v25.0.0-nightly2025+x", nil),
        ("v26.7.0", nil), ("", nil), ("24.1.0", nil), ("v24", nil), ("v18.0.\u{1B}[31m", nil),
        ("Welcome to v1.2.3", nil),
    ])
    func nodeReadsTheVariablesFromAVersionOn(_ version: String, _ words: String?) {
        for name in ["node", "/opt/bin/nodejs"] {
            let text = warning([name, "agent.js"], node: version)
            #expect((text != nil) == (words != nil))
            if let words { #expect(text?.contains(words) == true) }
        }
    }

    @Test func theNodeOfAScriptIsAsked() {
        #expect(ProxyAdvice(command: ["/usr/bin/node", "a.js"]).node == "/usr/bin/node")
        #expect(ProxyAdvice(command: ["agent"], interpreter: "node").node == "node")
        #expect(ProxyAdvice(command: ["/opt/npx", "x"], interpreter: "/opt/node").node == "/opt/node")
        // They read the variables themselves.
        #expect(ProxyAdvice(command: ["npm", "install"], interpreter: "node").node == nil)
        #expect(ProxyAdvice(command: ["agent"], interpreter: "python3").node == nil)
        #expect(ProxyAdvice(command: ["agent"]).node == nil)
        #expect(warning(["agent"], interpreter: "node", node: "v20.0.0") != nil)
        #expect(warning(["npm", "install"], interpreter: "node", node: "v20.0.0") == nil)
    }

    @Test(arguments: [
        ("#!/usr/bin/env node\nrest", "node"), ("#!/usr/bin/env -S node --flag\n", "node"),
        ("#! /opt/node\n", "/opt/node"),
        ("#!/usr/bin/env A=b node\n", "node"), ("#!/bin/sh", "/bin/sh"), ("#!\n", nil), ("#!/usr/bin/env\n", nil),
        ("\u{7F}ELF", nil), ("", nil),
    ])
    func theFirstLineNamesTheInterpreter(_ text: String, _ interpreter: String?) {
        #expect(ProxyAdvice.interpreter(in: Array(text.utf8)) == interpreter)
    }

    @Test(arguments: [
        (["curl", "-sS", "https://x"], nil), (["python3", "a.py"], nil), (["go", "run", "."], nil),
        (["git", "clone"], nil),
        (["java", "-jar", "a.jar"], nil), (["sudo", "curl"], "sudo -E"), (["/usr/bin/sudo", "-E", "curl"], nil),
        (["sudo", "-nE", "curl"], nil), (["sudo", "-u", "root", "-E", "curl"], nil),
        (["sudo", "-u", "root", "curl", "-E"], "sudo -E"),
        (["sudo"], "sudo -E"), (["sudo", "--preserve-env=HTTPS_PROXY", "curl"], nil),
        (["sudo", "curl", "-E", "cert"], "sudo -E"), (["doas", "-E", "curl"], "let doas start authgateway exec"),
        (["docker", "run", "image"], "env --format docker"), (["ssh", "host"], "does not use HTTPS_PROXY"),
        (["elixir", "a.exs"], "does not use HTTPS_PROXY"), ([], nil),
    ])
    func whatIgnoresTheProxyIsNamed(_ command: [String], _ words: String?) {
        let text = warning(command)
        #expect((text != nil) == (words != nil))
        if let words { #expect(text?.contains(words) == true) }
    }

    @Test func javaLacksTheToken() {
        #expect(warning(["/opt/jdk/bin/java", "-jar", "a.jar"], hasToken: true)?.contains("Authenticator") == true)
        #expect(warning(["curl"], hasToken: true) == nil)
    }
}
