package import GatewayCore
import Glibc

/// The token that lets the commands of this machine's operator change something through the admin listener.
///
/// New at every start. A user who can read the state directory can read it.
package enum AdminToken {
    package static func path(in stateDirectory: String) -> String { "\(stateDirectory)/admin.token" }

    package static func create(in stateDirectory: String) throws(StateError) -> Secret {
        let token = Hexadecimal.random(bytes: 32)
        try StateFile.write(token + "\n", to: path(in: stateDirectory))
        return Secret(token)
    }

    /// For processes that hold the state directory and listen nowhere: it is of use only at that address.
    static func remove(in stateDirectory: String) { _ = unsafe unlink(path(in: stateDirectory)) }

    /// nil when there is none, it may not be read, or the file holds something else: who owns the state directory may have put a link to
    /// any file there, and what is read is sent.
    package static func read(in stateDirectory: String) -> Secret? {
        guard let text = StateFile.read(path(in: stateDirectory)) else { return nil }
        let token = text.filter { !$0.isWhitespace }
        guard Hexadecimal.bytes(of: token)?.count == 32 else { return nil }
        return Secret(token)
    }
}
