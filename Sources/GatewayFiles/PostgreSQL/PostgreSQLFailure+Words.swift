extension PostgreSQLFailure {
    /// A message for operators, with the remedy.
    ///
    /// - Parameter name: What the database is called in the message.
    package func words(for name: String) -> String {
        switch state {
        case "25006":
            "\(name) takes no writes at the moment (it is a standby, or default_transaction_read_only is on); name the "
                + "primary, or all hosts with target_session_attrs=read-write"
        case "42P01", "3F000": "\(name) has no tables of this gateway; run `authgateway store migrate`"
        case "42501":
            "the role of \(name) lacks a right (\(reason)); grant what docs/fleet.md names, or run "
                + "`authgateway store migrate` as the owner of the database"
        case "55P03":
            "another session has locked rows of \(name) (\(reason)); pg_locks shows which one, and its transaction has to end"
        default: "\(name) cannot be used: \(reason)"
        }
    }
}
