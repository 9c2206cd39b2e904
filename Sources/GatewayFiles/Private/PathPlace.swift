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
    /// Its owner, where that is neither this user nor root and everybody may put files into the folder that it is in (with the
    /// sticky bit, such as `/tmp`).
    package let strangerInSharedFolder: UInt32?

    /// As many symbolic links as the system follows (path_resolution(7)).
    static let maximumLinks = 40

    /// Every folder from the root to what `path` names, and that itself. A user who may write to one of them decides what is
    /// found at the path.
    ///
    /// Symbolic links are followed one by one; the folders that they lead through are included, and so is a link that a stranger
    /// may have put there. Ends early where something is missing or may not be looked at.
    ///
    /// - Parameter path: Absolute.
    package static func all(on path: String) -> [PathPlace] {
        var places: [PathPlace] = []
        var rest = components(of: path)
        var folders: [String] = []
        var links = 0
        if let root = PathPlace("/", in: nil) { places.append(root) }
        while let name = rest.popLast() {
            if name == ".." {
                _ = folders.popLast()
                continue
            }
            let folder = "/" + folders.joined(separator: "/")
            let here = "/" + (folders + [name]).joined(separator: "/")
            if let target = linkTarget(here) {
                links += 1
                guard links <= maximumLinks else { break }
                if let link = PathPlace(link: here, in: folder) { places.append(link) }
                if target.hasPrefix("/") { folders = [] }
                rest += components(of: target)
                continue
            }
            guard let place = PathPlace(here, in: folder) else { break }
            if !places.contains(place) { places.append(place) }
            folders.append(name)
        }
        return places
    }

    /// The last one first.
    private static func components(of path: String) -> [String] {
        path.split(separator: "/").filter { $0 != "." }.map(String.init).reversed()
    }

    private init?(_ path: String, in folder: String?) {
        guard let status = FileStatus.of(path) else { return nil }
        self.path = path
        isFolder = status.st_mode & S_IFMT == S_IFDIR
        mode = UInt32(status.st_mode & 0o7777)
        isOnReadOnlyMount = Self.isOnReadOnlyMount(path)
        strangerInSharedFolder = folder.flatMap { Self.stranger(status.st_uid, in: $0) }
    }

    /// nil when no stranger has made the link. A link has no mode of its own.
    private init?(link: String, in folder: String) {
        var status = stat()
        guard unsafe lstat(link, &status) == 0, let stranger = Self.stranger(status.st_uid, in: folder) else {
            return nil
        }
        path = link
        isFolder = false
        mode = 0
        isOnReadOnlyMount = Self.isOnReadOnlyMount(folder)
        strangerInSharedFolder = stranger
    }

    private static func isOnReadOnlyMount(_ path: String) -> Bool {
        var system = statvfs()
        return unsafe statvfs(path, &system) == 0 && UInt(system.f_flag) & UInt(ST_RDONLY) != 0
    }

    private static func stranger(_ owner: uid_t, in folder: String) -> UInt32? {
        let isShared = FileStatus.of(folder).map { $0.st_mode & 0o1002 == 0o1002 } ?? false
        return isShared && owner != 0 && owner != geteuid() ? owner : nil
    }

    /// nil when it is not a symbolic link.
    private static func linkTarget(_ path: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = unsafe readlink(path, &buffer, buffer.count)
        guard count > 0 else { return nil }
        return String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
