import GatewayCore
import GatewayFiles
import Synchronization

/// The configuration's files as a command has changed them, on top of those of the disk.
final class EditedConfigFiles: ConfigFileSource {
    struct Opened: Sendable {
        /// Absolute.
        let path: String
        let file: EditedFile
        /// The content after the edits.
        var bytes: [UInt8]

        var isChanged: Bool { bytes != file.bytes }
    }

    private let disk = SystemConfigFiles()
    private let state = Mutex<[Opened]>([])

    /// Those that were read, each once, in the order in which they were first read.
    var opened: [Opened] { state.withLock(\.self) }

    /// Those with other content than on the disk.
    var changed: [Opened] { opened.filter(\.isChanged) }

    /// - Parameter path: Absolute; nil when the file was not read.
    subscript(path: String) -> Opened? { opened.first { $0.path == path } }

    func replace(_ bytes: [UInt8], of path: String) {
        state.withLock { opened in
            for index in opened.indices where opened[index].path == path { opened[index].bytes = bytes }
        }
    }

    func absolutePath(_ path: String) -> String { disk.absolutePath(path) }
    func places(on path: String) -> [FilePlace] { disk.places(on: path) }
    func names(in folder: String) -> [String] { disk.names(in: folder) }

    func read(_ path: String, limit: Int) throws(ConfigFileError) -> [UInt8] {
        if let known = self[path] { return known.bytes }
        let file: EditedFile
        do throws(BoundedFile.Failure) {
            file = try EditedFile.read(path, limit: limit)
        } catch {
            // With the words that the loader's own reading has for it.
            return try disk.read(path, limit: limit)
        }
        state.withLock { $0.append(Opened(path: path, file: file, bytes: file.bytes)) }
        return file.bytes
    }
}
