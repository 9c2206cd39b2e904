import Testing

// All suites are of Swift Testing. With an entry point of its own the build looks for no XCTest classes, for which it would have to
// write an index of every file.
@main
struct Main {
    static func main() async { await Testing.__swiftPMEntryPoint() as Never }
}
