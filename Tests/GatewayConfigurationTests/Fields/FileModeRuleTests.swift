import GatewayConfiguration
import Testing

@Suite("Modes of the configuration's files", .timeLimit(.minutes(5)))
struct FileModeRuleTests {
    struct Case: CustomTestStringConvertible {
        let kind: FilePlace.Kind
        let mode: UInt32
        var isOnReadOnlyMount = false
        var isStrict = false
        let finds: ConfigDiagnostic.Severity?

        var testDescription: String { "\(kind) \(String(mode, radix: 8)) strict: \(isStrict)" }
    }

    @Test(
        "others must not be able to change what is read",
        arguments: [
            Case(kind: .file, mode: 0o600, finds: nil),
            Case(kind: .file, mode: 0o644, finds: nil),
            Case(kind: .file, mode: 0o640, isStrict: true, finds: nil),
            Case(kind: .file, mode: 0o660, finds: .warning),
            Case(kind: .file, mode: 0o664, isStrict: true, finds: .error),
            Case(kind: .file, mode: 0o602, finds: .error),
            Case(kind: .file, mode: 0o666, finds: .error),
            // The sticky bit of a file says nothing.
            Case(kind: .file, mode: 0o1666, finds: .error),
            Case(kind: .file, mode: 0o666, isOnReadOnlyMount: true, isStrict: true, finds: nil),
            Case(kind: .folder, mode: 0o755, finds: nil),
            Case(kind: .folder, mode: 0o775, finds: .warning),
            Case(kind: .folder, mode: 0o2775, isStrict: true, finds: .error),
            Case(kind: .folder, mode: 0o777, finds: .error),
            Case(kind: .folder, mode: 0o777, isOnReadOnlyMount: true, finds: nil),
            Case(kind: .folder, mode: 0o1777, isStrict: true, finds: nil),
            Case(kind: .folder, mode: 0o1775, isStrict: true, finds: nil),
            // Everybody can add a file to it that the pattern fits.
            Case(kind: .listedFolder, mode: 0o1777, finds: .error),
            Case(kind: .listedFolder, mode: 0o1775, finds: .warning),
            Case(kind: .listedFolder, mode: 0o755, finds: nil),
        ]
    )
    func othersMustNotBeAbleToChangeWhatIsRead(_ example: Case) {
        let place = FilePlace(
            path: "/etc/gateway",
            kind: example.kind,
            mode: example.mode,
            isOnReadOnlyMount: example.isOnReadOnlyMount
        )
        #expect(FileModeRule.finding(of: place, isStrict: example.isStrict)?.severity == example.finds)
    }

    @Test(arguments: [FilePlace.Kind.file, .folder, .listedFolder])
    func whatAStrangerHasPutIntoASharedFolderIsRefused(_ kind: FilePlace.Kind) {
        let place = FilePlace(
            path: "/tmp/gateway.yaml",
            kind: kind,
            mode: 0o644,
            isOnReadOnlyMount: false,
            strangerInSharedFolder: 1001
        )
        let finding = FileModeRule.finding(of: place, isStrict: false)
        #expect(finding?.severity == .error)
        #expect(
            finding?.message
                == "/tmp/gateway.yaml belongs to another user (1001), and any user can put files into its folder; use another "
                + "folder, or if it is yours, run: chown root /tmp/gateway.yaml"
        )
    }

    @Test func theMessageNamesWhoCanDoWhatAndTheCommand() {
        let file = FilePlace(path: "/etc/gateway.yaml", kind: .file, mode: 0o666, isOnReadOnlyMount: false)
        #expect(
            FileModeRule.finding(of: file, isStrict: false)?.message
                == "every user of this machine can change the file /etc/gateway.yaml (mode 666); run: "
                + "chmod o-w /etc/gateway.yaml"
        )
        let folder = FilePlace(path: "/etc/gateway", kind: .folder, mode: 0o775, isOnReadOnlyMount: false)
        #expect(
            FileModeRule.finding(of: folder, isStrict: true)?.message
                == "its group can replace files in the folder /etc/gateway (mode 775) (refused by --strict-modes); run: "
                + "chmod g-w /etc/gateway"
        )
    }
}
