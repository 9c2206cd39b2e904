import GatewayAudit
import GatewayCore

extension AuditShipper {
    /// Taken when somebody asks.
    func record(in metrics: MetricRegistry) {
        metrics.gauge("gateway_audit_unshipped_events", []).set(Int64(shipping.unshipped))
    }
}
