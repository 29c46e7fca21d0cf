//! Metrics in the text format of Prometheus.

use std::fmt::Write as _;

/// Writes counters that something else kept.
pub fn write_counters(body: &mut String, counters: &[(&str, &str, u64)]) -> std::fmt::Result {
    for (name, help, value) in counters {
        writeln!(body, "# HELP tidewire_{name} {help}.\n# TYPE tidewire_{name} counter")?;
        writeln!(body, "tidewire_{name}_total {value}")?;
    }
    Ok(())
}

/// Writes gauges that something else kept.
pub fn write_gauges(body: &mut String, gauges: &[(&str, &str, u64)]) -> std::fmt::Result {
    for (name, help, value) in gauges {
        writeln!(body, "# HELP tidewire_{name} {help}.\n# TYPE tidewire_{name} gauge")?;
        writeln!(body, "tidewire_{name} {value}")?;
    }
    Ok(())
}
