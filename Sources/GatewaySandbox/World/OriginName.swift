/// The servers of a sandbox; each has an address, switches and counters of its own.
enum OriginName: String, CaseIterable, Sendable {
    case box
    case boxDownloads = "box_downloads"
    case duke
    case oauth
    case upstream
}
