import Foundation
package import GatewayCore
import GatewayFiles

/// The configuration's files on this machine.
package struct SystemConfigFiles: ConfigFileSource {
    package init() {}

    package func absolutePath(_ path: String) -> String {
        guard !path.hasPrefix("/") else { return path }
        let folder = FileManager.default.currentDirectoryPath
        let relative = path.hasPrefix("./") ? String(path.dropFirst(2)) : path
        return folder.hasSuffix("/") ? folder + relative : "\(folder)/\(relative)"
    }

    /// A file that is too large is cut at the limit; the loader then refuses it with its own words.
    package func read(_ path: String, limit: Int) throws(ConfigFileError) -> [UInt8] {
        do throws(BoundedFile.Failure) {
            return try BoundedFile.read(path, limit: limit).bytes
        } catch {
            switch error {
            case .tooLarge: throw ConfigFileError("the file is larger than \(ConfigUnits.text(bytes: limit - 1))")
            case .missing: throw ConfigFileError("no such file", advice: "name another one with --config")
            default: throw ConfigFileError("cannot be read: \(error.message)")
            }
        }
    }

    package func places(on path: String) -> [FilePlace] {
        PathPlace.all(on: path).map { place in
            FilePlace(
                path: place.path,
                kind: place.isFolder ? .folder : .file,
                mode: place.mode,
                isOnReadOnlyMount: place.isOnReadOnlyMount,
                strangerInSharedFolder: place.strangerInSharedFolder
            )
        }
    }

    package func names(in folder: String) -> [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    }
}
