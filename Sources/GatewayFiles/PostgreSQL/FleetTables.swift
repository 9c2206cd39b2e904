/// The tables in which gateways of one token store tell of themselves: who they are, and what their audit logs hold.
///
/// The columns of the audit tables are those of the local log, with its values as they are, so that a chain can be recomputed here.
package enum FleetTables {
    /// Makes what is missing. For a block of PL/pgSQL, after the schema `authgateway` was made.
    package static let statements = gateways + audit

    /// `id` is also the name of the gateway's chain. `acknowledged` is a transaction: the gateway has followed all that was
    /// committed before it.
    private static let gateways = """
        CREATE TABLE IF NOT EXISTS authgateway.gateway (
            id text PRIMARY KEY,
            host text NOT NULL,
            version text NOT NULL,
            started_at text NOT NULL,
            configuration text NOT NULL,
            clock_offset_ms bigint NOT NULL,
            acknowledged bigint NOT NULL,
            unshipped bigint NOT NULL,
            seen_at timestamptz NOT NULL
        );

        """

    private static let audit = """
        CREATE TABLE IF NOT EXISTS authgateway.audit_chain (
            chain text PRIMARY KEY,
            host text NOT NULL,
            key_check text NOT NULL,
            head_id bigint NOT NULL,
            head_hash text NOT NULL
        );
        CREATE TABLE IF NOT EXISTS authgateway.audit_event (
            chain text NOT NULL,
            id bigint NOT NULL,
            at text NOT NULL,
            event text NOT NULL,
            credential text,
            strategy text,
            subject text,
            generation bigint,
            "trigger" text,
            route text,
            client text,
            request_id text,
            outcome text NOT NULL,
            http_status bigint,
            error_code text,
            expires_at text,
            duration_ms bigint,
            waiters bigint,
            token_fingerprint text,
            instance text NOT NULL,
            detail text NOT NULL,
            previous_hash text NOT NULL,
            hash text NOT NULL,
            client_request_id text,
            PRIMARY KEY (chain, id)
        );
        CREATE INDEX IF NOT EXISTS audit_event_at ON authgateway.audit_event (at, chain, id);
        CREATE INDEX IF NOT EXISTS audit_event_credential ON authgateway.audit_event (credential, at);
        CREATE TABLE IF NOT EXISTS authgateway.audit_checkpoint (
            chain text NOT NULL,
            id bigint NOT NULL,
            at text NOT NULL,
            pruned_to_id bigint NOT NULL,
            pruned_to_hash text NOT NULL,
            previous_hash text NOT NULL,
            hash text NOT NULL,
            PRIMARY KEY (chain, id)
        );
        CREATE TABLE IF NOT EXISTS authgateway.audit_use (
            chain text NOT NULL,
            minute text NOT NULL,
            route text NOT NULL,
            client text NOT NULL,
            credential text NOT NULL,
            generation bigint NOT NULL,
            status_class bigint NOT NULL,
            requests bigint NOT NULL,
            bytes_received bigint NOT NULL,
            bytes_sent bigint NOT NULL,
            PRIMARY KEY (chain, minute, route, client, credential, generation, status_class)
        );
        ALTER TABLE authgateway.audit_use ADD COLUMN IF NOT EXISTS status_401 bigint,
            ADD COLUMN IF NOT EXISTS status_403 bigint, ADD COLUMN IF NOT EXISTS status_429 bigint;
        CREATE INDEX IF NOT EXISTS audit_use_credential ON authgateway.audit_use (credential, minute);
        CREATE INDEX IF NOT EXISTS audit_event_request ON authgateway.audit_event (request_id)
            WHERE request_id IS NOT NULL;
        CREATE INDEX IF NOT EXISTS audit_event_client_request ON authgateway.audit_event (client_request_id)
            WHERE client_request_id IS NOT NULL;

        """
}

/// The version of all tables in the schema `authgateway`. It stands in `authgateway.store`.
package enum SharedSchema {
    /// Counts the changes of the tables. A program refuses tables of a newer one.
    package static let version: Int64 = 1

    /// Has no row when no version is stored.
    package static let question = PostgreSQLStatement(
        "SELECT value::bigint FROM authgateway.store WHERE name = 'schema'",
        isRepeatable: true
    )

    /// nil when this program knows the tables, otherwise what to do.
    ///
    /// - Parameter name: What the database is called in the message.
    package static func problem(with found: Int64, in name: String) -> String? {
        guard found > version else { return nil }
        return "\(name) was written by a newer authgateway (schema \(found); this one knows \(version)); run the newer "
            + "program here, too"
    }
}
