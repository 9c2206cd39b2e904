import Testing

@testable import GatewayApp

@Suite("Pages of the program", .timeLimit(.minutes(5)))
struct ProgramPagesTests {
    private static let maps = """
        1000-2000 r--p 00000000 fe:00 11                         /usr/bin/authgateway
        2000-5000 r-xp 00001000 fe:00 11                         /usr/bin/authgateway
        5000-6000 r--p 00004000 fe:00 11                         /usr/bin/authgateway
        6000-7000 rw-p 00005000 fe:00 11                         /usr/bin/authgateway
        7000-8000 rw-p 00000000 00:00 0                          [heap]
        a000-b000 r-xp 00000000 fe:00 22                         /usr/lib/a b.so
        b000-c000 r--p 00001000 fe:00 22                         /usr/lib/a b.so
        c000-d000 rw-s 00000000 fe:00 33                         /var/lib/authgateway/audit.db-shm
        d000-e000 r--p 00000000 fe:00 33                         /var/lib/authgateway/audit.db-shm
        e000-f000 rw-p 00000000 00:00 0
        7fff0000-7fff2000 r-xp 00000000 00:00 0                  [vdso]

        """

    /// Those that the loader wrote to come later in their file, and stay.
    @Test func onlyPagesThatNobodyHasWrittenToAreGivenBack() {
        let ranges = ProgramPages.readOnlyRanges(in: Array(Self.maps.utf8))
        #expect(ranges == [0x1000..<0x2000, 0x2000..<0x5000, 0xA000..<0xB000])
    }

    @Test func noBytesTrap() {
        let maps = Array(Self.maps.utf8)
        for index in maps.indices {
            _ = ProgramPages.readOnlyRanges(in: Array(maps[..<index]))
            _ = ProgramPages.readOnlyRanges(in: Array(maps[index...]))
        }
        #expect(ProgramPages.readOnlyRanges(in: Array("f000-1000 r-xp 0 0:0 1 /a\n".utf8)) == [])
        #expect(ProgramPages.readOnlyRanges(in: []) == [])
    }
}
