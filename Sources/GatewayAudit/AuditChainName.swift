import GRDB
import GatewayCore

/// The name of a chain among those of other gateways: 16 hexadecimal digits, made at random with each audit database.
///
/// The hashes do not cover it. It says where the rows of a log are in a shared database, not whether they are right.
enum AuditChainName {
    /// Within a transaction of the caller.
    static func ensure(in database: Database) throws -> String {
        let known = try String.fetchOne(database, sql: "SELECT value FROM audit_log WHERE name = 'chain'")
        if let known, isName(known) { return known }
        return try replace(in: database)
    }

    /// Gives the log another name: what others have under the present one belongs to another copy of the log.
    static func replace(in database: Database) throws -> String {
        try ShippingMarks.remove(in: database)
        let name = Hexadecimal.random(bytes: 8)
        try database.execute(
            sql:
                "INSERT INTO audit_log (name, value) VALUES ('chain', ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            arguments: [name]
        )
        return name
    }

    private static func isName(_ text: String) -> Bool { Hexadecimal.bytes(of: text)?.count == 8 }
}
