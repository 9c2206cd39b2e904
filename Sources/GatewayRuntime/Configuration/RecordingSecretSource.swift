import GatewayCore
import Synchronization

/// Remembers which secret files were asked for, so that a mended one is noticed, and what programs with a `ttl` said.
final class RecordingSecretSource: SecretSource {
    private let source: SystemSecretSource
    private let files: RecordingConfigFiles
    private let remembered: [SecretProgram: ProgramAnswer]
    private let answers = Mutex<[SecretProgram: ProgramAnswer]>([:])

    /// - Parameter remembered: Programs that are not asked again.
    init(
        _ source: SystemSecretSource,
        in files: RecordingConfigFiles,
        remembering remembered: [SecretProgram: ProgramAnswer]
    ) {
        self.remembered = remembered
        self.source = source
        self.files = files
    }

    func environment(_ name: String) -> String? { source.environment(name) }

    func file(_ path: String) throws(SecretSourceError) -> Secret {
        // Before it is read: what is written in between is then a change.
        files.note(secret: path)
        return try source.file(path)
    }

    /// What the programs with a `ttl` that were asked for have said.
    var programs: [SecretProgram: ProgramAnswer] { answers.withLock { $0 } }

    /// A program with a `ttl` is asked once, however often the configuration names it.
    func program(_ program: SecretProgram) throws(SecretSourceError) -> Secret {
        guard program.ttl != nil else { return try source.program(program) }
        if let known = programs[program] ?? remembered[program] {
            answers.withLock { $0[program] = known }
            return known.secret
        }
        let answer = ProgramAnswer(secret: try source.program(program), at: SystemClock().monotonic())
        answers.withLock { $0[program] = answer }
        return answer.secret
    }

    func systemdCredential(_ name: String) throws(SecretSourceError) -> Secret { try source.systemdCredential(name) }
    func userID(ofName name: String) -> UInt32? { source.userID(ofName: name) }

    func certificates(_ path: String) throws(SecretSourceError) -> String {
        files.note(secret: path)
        return try source.certificates(path)
    }

    func publicText(_ path: String) throws(SecretSourceError) -> String {
        files.note(secret: path)
        return try source.publicText(path)
    }

    func fits(_ tls: ClientTLS) -> Bool { source.fits(tls) }

    func openPrivateKey(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? {
        source.openPrivateKey(pem, passphrase: passphrase)
    }
}
