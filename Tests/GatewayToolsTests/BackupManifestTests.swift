import GatewayHTTP
import GatewayTools
import Testing

@Suite("The manifest of a backup", .timeLimit(.minutes(1)))
struct BackupManifestTests {
    private let known = BackupManifest.Schemas(audit: 1, tokens: 1)

    private func manifest(_ change: (inout BackupManifest) -> Void = { _ in }) -> BackupManifest {
        var manifest = BackupManifest(
            version: "0.1.0",
            instance: "1a2b3c4d",
            madeAt: UnixTime(seconds: 1_772_357_400),
            lastAuditRow: 12,
            isAuditVerified: true,
            includesKeys: false,
            files: ["audit.sqlite", "audit.sqlite.head", "tokens.sqlite", "secrets/box"].map {
                BackupManifest.File(name: $0, bytes: 1, sha256: "00")
            }
        )
        manifest.schemas = known
        manifest.tokens = 2
        manifest.authentication = "ab"
        change(&manifest)
        return manifest
    }

    private func refusal(_ change: (inout BackupManifest) -> Void) -> BackupManifest.Refusal? {
        do throws(BackupManifest.Refusal) {
            _ = try BackupManifest(json: manifest(change).text, known: known)
            return nil
        } catch {
            return error
        }
    }

    @Test func itIsReadAsItWasWritten() throws {
        #expect(try BackupManifest(json: manifest().text, known: known) == manifest())
        let text = String(decoding: manifest().text, as: UTF8.self)
        #expect(text.contains("\"made_at\" : \"2026-03-01T09:30:00.000Z\""))
    }

    @Test func theCodeCoversAllButItself() {
        #expect(manifest().authenticatedBytes == manifest { $0.authentication = "cd" }.authenticatedBytes)
        #expect(manifest().authenticatedBytes != manifest { $0.includesKeys = true }.authenticatedBytes)
        #expect(manifest().authenticatedBytes != manifest { $0.files[0].sha256 = "01" }.authenticatedBytes)
    }

    @Test func whatANewerVersionMadeIsRefused() {
        #expect(refusal { $0.format = 2 } == .newerFormat(2))
        #expect(refusal { $0.schemas.audit = 2 } == .newerSchema(of: "audit.sqlite", found: 2, known: 1))
        #expect(refusal { $0.schemas.tokens = 9 } == .newerSchema(of: "tokens.sqlite", found: 9, known: 1))
        #expect(refusal { $0.schemas.tokens = 0 } == nil)
        let later = Array(#"{"format": 3, "other": true}"#.utf8)
        #expect(throws: BackupManifest.Refusal.newerFormat(3)) { try BackupManifest(json: later, known: known) }
        #expect(throws: BackupManifest.Refusal.unreadable) { try BackupManifest(json: Array("{}".utf8), known: known) }
    }

    @Test(arguments: [
        "../x", "secrets/../x", "secrets/a/b", "secrets/.x", "secrets/", "/etc/passwd", "audit.sqlite-wal",
    ])
    func aFileOfAnotherPlaceIsRefused(_ name: String) {
        #expect(refusal { $0.files[3].name = name } == .unknownFile(name))
    }

    @Test func aDatabaseThatIsNotNamedIsMissing() {
        #expect(refusal { $0.files.removeFirst() } == .missingFile("audit.sqlite"))
        #expect(refusal { $0.files.remove(at: 2) } == .missingFile("tokens.sqlite"))
        #expect(refusal { $0.files.append($0.files[0]) } == .unreadable)
    }
}
