import GatewayHTTP
import Testing

@Suite("URLs of PostgreSQL", .timeLimit(.minutes(1)))
struct PostgreSQLURLTests {
    @Test func partsAreRead() throws {
        let url = try PostgreSQLURL(
            "postgresql://gate%40way:s%2Fecret@db1.example:5433,[::1]/to%20kens?sslmode=verify-full"
        )
        #expect(url.hosts == [.init(name: "db1.example", port: 5433), .init(name: "::1", port: nil)])
        #expect(url.user == "gate@way")
        #expect(url.password == Secret("s/ecret"))
        #expect(url.database == "to kens")
        #expect(url.parameters == ["sslmode": "verify-full"])
        #expect(url.description == "db1.example:5433,[::1]/to kens")
        #expect(try PostgreSQLURL("postgres:///x?host=/run/postgresql&port=5433").hosts[0].port == 5433)
        #expect(try PostgreSQLURL("postgresql://%2Frun%2Fpostgresql/x").hosts[0].isSocket)
        #expect(try PostgreSQLURL("postgresql://?service=tokens").hosts.isEmpty)
        #expect(try PostgreSQLURL("postgresql://a,b/x?port=1,2").hosts.map(\.port) == [1, 2])
    }

    @Test(arguments: [
        "postgresql://u:can/ary@h/d", "postgresql://u:1/canary@h/d", "postgresql://u:can?ary@h/d",
        "postgresql://u:can%ary@h/d",
        "postgresql://u:p@can ary/d", "postgresql://h/d?canary=1", "postgresql://h:canary/d", "mysql://u:canary@h/d",
        "postgresql://h/d?sslmode=canary", "postgresql://h,g/d?port=1,2,3", "postgresql://h/d?sslmode=",
        "postgresql:///d", "canary",
        "postgresql://h/d?sslmode=require&sslmode=disable", "postgresql://h/d?port=canary",
        "postgresql://h/d?options=-c%20canary",
        "postgresql://h%00/d", "postgresql://[::1/d", "postgresql://h:0/d", "postgresql://h:65536/d",
    ])
    func aMistakeIsNamedWithoutThePassword(_ text: String) {
        do throws(PostgreSQLURL.Mistake) {
            _ = try PostgreSQLURL(text)
            Issue.record("\(text) was read")
        } catch {
            #expect(!error.message.contains("canary"))
            #expect(!error.message.contains("ary@"))
        }
    }

    @Test(arguments: [
        ("postgresql://db.example/x", nil), ("postgresql://db.example/x?sslmode=verify-full", nil),
        ("postgresql://db.example/x?sslmode=require", "db.example"),
        ("postgresql://localhost,db.example/x?sslmode=prefer", "db.example"),
        ("postgresql://127.0.0.1/x?sslmode=disable", nil), ("postgresql:///x?host=/run&sslmode=disable", nil),
        ("postgresql://[::1]/x?sslmode=disable", nil), ("postgresql://[::2]/x?sslmode=disable", "[::2]"),
        ("postgresql://?service=tokens&sslmode=require", "service tokens"), ("postgresql://?service=tokens", nil),
    ])
    func aHostThatCouldBeImitatedIsFound(_ url: String, _ host: String?) throws {
        #expect(try PostgreSQLURL(url).unprotectedServer == host)
    }
}
