extension SQLiteAuditLog {
    /// Stands in for the name that the audit database keeps.
    package var chainName: String {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in options.path.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        let digits = String(hash, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
