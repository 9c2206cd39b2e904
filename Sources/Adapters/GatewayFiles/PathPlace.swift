#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// A file, or a folder that was passed on the way to it.
package struct PathPlace: Hashable, Sendable {
    package let path: String
    package let isFolder: Bool
    /// Permission, sticky, set-user-ID and set-group-ID bits (07777).
    package let mode: UInt32
    package let isOnReadOnlyMount: Bool

    /// As many symbolic links as the system follows (path_resolution(7)).
    private static let maximumLinks = 40

    /// Every folder from the root to what `path` names, and that itself. Whoever may write to one of them decides what is
    /// found at the path.
    ///
    /// Symbolic links are followed one by one; the folders that they lead through are included. Ends early where something
    /// is missing or may not be looked at.
    ///
    /// - Parameter path: Absolute.
    package static func all(on path: String) -> [PathPlace] {
        var places: [PathPlace] = []
        var rest = components(of: path)
        var folders: [String] = []
        var links = 0
        if let root = PathPlace("/") { places.append(root) }
        while let name = rest.popLast() {
            if name == ".." {
                _ = folders.popLast()
                continue
            }
            let here = "/" + (folders + [name]).joined(separator: "/")
            if let target = linkTarget(here) {
                links += 1
                guard links <= maximumLinks else { break }
                if target.hasPrefix("/") { folders = [] }
                rest += components(of: target)
                continue
            }
            guard let place = PathPlace(here) else { break }
            if !places.contains(place) { places.append(place) }
            folders.append(name)
        }
        return places
    }

    /// The last one first.
    private static func components(of path: String) -> [String] {
        path.split(separator: "/").filter { $0 != "." }.map(String.init).reversed()
    }

    private init?(_ path: String) {
        guard let status = FileStatus.of(path) else { return nil }
        self.path = path
        isFolder = status.st_mode & S_IFMT == S_IFDIR
        mode = UInt32(status.st_mode & 0o7777)
        var system = statvfs()
        isOnReadOnlyMount = unsafe statvfs(path, &system) == 0 && UInt(system.f_flag) & UInt(ST_RDONLY) != 0
    }

    /// nil when it is not a symbolic link.
    private static func linkTarget(_ path: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = unsafe readlink(path, &buffer, buffer.count)
        guard count > 0 else { return nil }
        return String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
