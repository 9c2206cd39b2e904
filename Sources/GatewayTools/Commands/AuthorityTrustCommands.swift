import ArgumentParser
import Foundation
import GatewayApp
import GatewayFiles
import GatewayHTTP
import GatewayLocalAuthority
import Glibc

struct AuthorityInstallCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "install",
        abstract: "Let this machine trust the local CA.",
        discussion: """
            Examples:
              sudo authgateway ca install

            Uses update-ca-certificates, trust or security, whichever the machine has.
            Uses keytool for a Java whose trust store does not follow the system. Prints
            what it did. Needs root. Repeat it when a new host has made a new
            certificate. Programs that `authgateway exec` starts do not need it.

            Exit codes: 0 done, 1 failed, 3 configuration.
            """
    )

    @OptionGroup var config: ConfigOption

    func run() async throws(CommandFailure) {
        Console.write(try await MachineTrust(plan: config.runningSettings().plan).install())
    }
}

struct AuthorityUninstallCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "uninstall",
        abstract: "Make this machine stop trusting the local CA.",
        discussion: """
            Examples:
              sudo authgateway ca uninstall

            Removes all that `authgateway ca install` has installed, also certificates
            that the authority has replaced since. Needs root.

            Exit codes: 0 done, 1 failed, 3 configuration.
            """
    )

    @OptionGroup var config: ConfigOption

    func run() async throws(CommandFailure) {
        Console.write(try await MachineTrust(plan: config.runningSettings().plan).uninstall())
    }
}

/// What this machine trusts, and how that is changed.
private struct MachineTrust: Sendable {
    private static let programLimit: Duration = .seconds(60)
    private static let outputLimit = 1 << 20

    let plan: OperatorPlan

    /// - Returns: What was done, a line for each step.
    func install() async throws(CommandFailure) -> String {
        let system = try requireSystem("install")
        let present = try roots()
        guard !present.isEmpty else {
            throw CommandFailure(
                .failed,
                "there is no local CA in \(plan.stateDirectory); make it with: authgateway ca create"
            )
        }
        // Kept, so that it can be removed after the authority has a new one.
        for root in present { try write(root.pem, to: record(root.root.fingerprint)) }
        let roots = present.map {
            SystemTrust.Root(fingerprint: $0.root.fingerprint, path: record($0.root.fingerprint))
        }
        var done = ""
        for step in system.install(roots) { done += try await perform(step) }
        return done + (try await installInJava(present))
    }

    func uninstall() async throws(CommandFailure) -> String {
        let system = try requireSystem("uninstall")
        let names = PrivateFile.names(beside: folder + "/x").filter { $0.hasSuffix(".pem") }.sorted()
        guard !names.isEmpty else { return "Nothing is installed.\n" }
        let roots = names.map { SystemTrust.Root(fingerprint: String($0.dropLast(4)), path: "\(folder)/\($0)") }
        var done = ""
        for step in system.uninstall(roots) { done += try await perform(step) }
        if ProgramSearch.path(of: "keytool") != nil {
            for store in TrustProbe.javaStores() {
                for root in roots {
                    // One that the store does not have is no failure.
                    let command = SystemTrust.uninstallFromJava(root, store: store)
                    if case .success = await Self.run(command) { done += "ran \(Self.shown(command))\n" }
                }
            }
        }
        for root in roots { _ = PrivateFile.remove(root.path) }
        return done
    }

    /// A store of Java that follows the system, as Debian's does, has it by now.
    private func installInJava(_ present: [AuthorityRoots.Root]) async throws(CommandFailure) -> String {
        guard ProgramSearch.path(of: "keytool") != nil else { return "" }
        let trust = try? TrustProbe(stateDirectory: plan.stateDirectory).look()
        var done = ""
        for place in trust?.places ?? [] where place.kind == .java && place.trusted == 0 {
            for root in present {
                let root = SystemTrust.Root(fingerprint: root.root.fingerprint, path: record(root.root.fingerprint))
                done += try await perform(.run(SystemTrust.installInJava(root, store: place.name)))
            }
        }
        return done
    }

    private var folder: String { plan.stateDirectory + "/ca/installed" }
    private func record(_ fingerprint: String) -> String { "\(folder)/\(fingerprint).pem" }

    private func roots() throws(CommandFailure) -> [AuthorityRoots.Root] {
        do throws(StateError) {
            return try AuthorityRoots.read(in: plan.stateDirectory)
        } catch {
            throw CommandFailure(.failed, error.description)
        }
    }

    private func requireSystem(_ verb: String) throws(CommandFailure) -> SystemTrust {
        guard let system = SystemTrust.present({ ProgramSearch.path(of: $0) != nil }) else {
            let names = SystemTrust.allCases.map(\.rawValue).joined(separator: ", ")
            throw CommandFailure(
                .failed,
                "none of \(names) is on this machine; use authgateway exec, or authgateway ca show"
            )
        }
        guard geteuid() == 0 else {
            throw CommandFailure(
                .failed,
                "only root can change what this machine trusts; run: sudo \(GatewayCommand.line("ca", verb))"
            )
        }
        return system
    }

    // MARK: Steps

    private func perform(_ step: SystemTrust.Step) async throws(CommandFailure) -> String {
        switch step {
        case .copy(let source, let target):
            do {
                let content = try BoundedFile.read(source, limit: Self.outputLimit).bytes
                try FileManager.default.createDirectory(
                    atPath: (target as NSString).deletingLastPathComponent,
                    withIntermediateDirectories: true
                )
                try PrivateFile.replace(target, with: content, mode: 0o644)
            } catch {
                throw CommandFailure(.failed, "cannot write \(target): \(Self.reason(error)); nothing more was done")
            }
            return "wrote \(target)\n"
        case .remove(let path):
            return PrivateFile.remove(path) ? "removed \(path)\n" : ""
        case .run(let command):
            switch await Self.run(command) {
            case .success: return "ran \(Self.shown(command))\n"
            case .failure(let failure):
                throw CommandFailure(.failed, "\(Self.shown(command)): \(failure.message); nothing more was done")
            }
        }
    }

    private func write(_ text: String, to path: String) throws(CommandFailure) {
        do {
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            try PrivateFile.replace(path, with: Array(text.utf8))
        } catch {
            throw CommandFailure(.failed, "cannot write \(path): \(Self.reason(error))")
        }
    }

    private static func reason(_ error: any Error) -> String {
        switch error {
        case let error as PrivateFile.Failure: error.reason
        case let error as BoundedFile.Failure: error.message
        default: "its folder cannot be made"
        }
    }

    private static func run(_ command: [String]) async -> Result<[UInt8], SpawnedProgram.Failure> {
        let environment = ProgramEnvironment.inherited(from: ProcessInfo.processInfo.environment)
        let outcome = await OwnThread.run(within: SpawnedProgram.longestCall(timeout: programLimit)) { isCancelled in
            Result { () throws(SpawnedProgram.Failure) in
                try SpawnedProgram.output(
                    of: command,
                    environment: environment,
                    limit: outputLimit,
                    timeout: programLimit,
                    isCancelled: isCancelled
                )
            }
        }
        return outcome.mapError { SpawnedProgram.Failure($0, timeout: programLimit) }.flatMap(\.self)
    }

    private static func shown(_ command: [String]) -> String { command.map(ShellWord.quoted).joined(separator: " ") }
}
