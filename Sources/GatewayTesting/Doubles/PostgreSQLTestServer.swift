import Foundation
import Synchronization

/// A PostgreSQL server on a Unix socket in a temporary folder. It ends with the test process, at the latest.
package final class PostgreSQLTestServer: Sendable {
    package let folder: String
    private let process: Mutex<Process?>

    /// - Parameter settings: Such as `default_transaction_read_only=on`.
    package init(_ settings: [String] = []) throws {
        let binaries = try Self.binaries()
        folder = "/tmp/authgateway-pg-\(UUID().uuidString.prefix(8))"
        process = Mutex(try Self.start(binaries, folder, settings))
        try waitUntilReady()
    }

    deinit { process.withLock { $0.take() }?.terminateAndWait() }

    /// The URL of a database; `postgres` is there from the start.
    package func url(_ database: String = "postgres", user: String = "postgres") -> String {
        "postgresql://\(user)@/\(database)?host=\(folder)/socket"
    }

    /// Runs statements as the administrator, in `database`.
    package func administrate(_ sql: String, database: String = "postgres") throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try Self.binaries() + "/psql")
        process.arguments = [
            "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", folder + "/socket", "-U", "postgres", "-d", database, "-c", sql,
        ]
        let output = Pipe()
        process.standardError = output
        process.standardOutput = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw ConformanceFailure(text) }
    }

    package func makeDatabase() throws -> String {
        let name = "test_\(UUID().uuidString.prefix(8).lowercased())"
        try administrate("CREATE DATABASE \(name)")
        return name
    }

    /// The process of the server itself.
    package var identifier: Int32 {
        let text = (try? String(contentsOfFile: folder + "/data/postmaster.pid", encoding: .utf8)) ?? ""
        return text.split(separator: "\n").first.flatMap { Int32($0) } ?? 0
    }

    private func waitUntilReady() throws {
        for _ in 0..<300 {
            if (try? administrate("SELECT 1")) != nil { return }
            Thread.sleep(forTimeInterval: 0.1)
        }
        throw ConformanceFailure("PostgreSQL did not start; \(folder)/log says why")
    }

    private static func binaries() throws -> String {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        let found = versions.compactMap { Int($0) }.sorted().last.map { "\(root)/\($0)/bin" }
        guard let found, FileManager.default.isExecutableFile(atPath: found + "/initdb") else {
            throw ConformanceFailure("\(root) holds no PostgreSQL server; run scripts/setup-tests")
        }
        return found
    }

    /// A server refuses to run as root. It ends when this process closes its standard input, which the system does for one that dies.
    private static func start(_ binaries: String, _ folder: String, _ settings: [String]) throws -> Process {
        let options = (["listen_addresses=", "fsync=off", "unix_socket_directories=\(folder)/socket"] + settings)
            .map { "-c '\($0)'" }.joined(separator: " ")
        let script = """
            set -e
            mkdir -m 755 \(folder) \(folder)/socket
            \(binaries)/initdb -D \(folder)/data -A trust -U postgres -E UTF8 --locale=C --no-sync >\(folder)/log 2>&1
            \(binaries)/postgres -D \(folder)/data \(options) >>\(folder)/log 2>&1 </dev/null &
            server=$!
            cat >/dev/null
            kill -CONT $server 2>/dev/null || true
            kill -INT $server 2>/dev/null || true
            wait $server || true
            rm -rf \(folder)
            """
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", script]
        if NSUserName() == "root" {
            process.executableURL = URL(fileURLWithPath: "/sbin/runuser")
            process.arguments = ["-u", "nobody", "--", "/bin/sh", "-c", script]
        }
        process.standardInput = Pipe()
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        return process
    }
}

extension Process {
    fileprivate func terminateAndWait() {
        (standardInput as? Pipe)?.fileHandleForWriting.closeFile()
        waitUntilExit()
    }
}
