//! Metrics of groups, as of this node's last measurement.

use std::fmt::Write as _;
use std::sync::PoisonError;

use super::dispatchers::GroupDispatchers;
use super::upkeep::Measured;

/// Writes the metrics of consumer groups.
pub(crate) fn write(body: &mut String, dispatchers: &GroupDispatchers) -> std::fmt::Result {
    let measured = dispatchers.measured.lock().unwrap_or_else(PoisonError::into_inner);
    let help =
        "Events that a partition has not consumed; missing where there are too many to count";
    head(body, "lag_events", "gauge", help)?;
    each_partition(body, &measured, "lag_events", |lag| lag.events.map(|count| count.to_string()))?;
    head(body, "lag_offsets", "gauge", "Offsets of the log that a partition is behind")?;
    each_partition(body, &measured, "lag_offsets", |lag| Some(lag.offsets.to_string()))?;
    head(body, "lag_seconds", "gauge", "Age of the oldest event that is not consumed")?;
    each_partition(body, &measured, "lag_seconds", |lag| lag.seconds.map(|s| s.to_string()))?;
    type Gauge = fn(&Measured) -> String;
    let gauges: [(&str, &str, Gauge); 6] = [
        ("rate", "Events a second, by what members report and what was acknowledged here", |one| {
            format!("{:.3}", one.rate)
        }),
        ("members", "Members that live", |one| one.view.members.len().to_string()),
        ("dead_letters", "Events that could not be handled", |one| one.view.dead.to_string()),
        ("parked_letters", "Events that wait behind those", |one| one.view.parked.to_string()),
        ("stopped", "Whether the group stands still", |one| {
            u8::from(one.view.stopped.is_some()).to_string()
        }),
        ("troubled_partitions", "Partitions that stand still", |one| {
            one.view.partitions.iter().filter(|at| at.trouble.is_some()).count().to_string()
        }),
    ];
    for (name, help, value) in gauges {
        head(body, name, "gauge", help)?;
        each_group(body, &measured, name, value)?;
    }
    let counters: [(&str, &str, Gauge); 5] = [
        ("events", "Events that were consumed", |one| one.counts.events.to_string()),
        ("retries", "Runs that failed and are tried again", |one| one.counts.retries.to_string()),
        ("deaths", "Events that became dead letters", |one| one.counts.dead.to_string()),
        ("rebalances", "Changes of members' shares", |one| one.counts.rebalances.to_string()),
        ("lease_expirations", "Batches that went to another worker, found here", |one| {
            one.counts.lease_expirations.to_string()
        }),
    ];
    for (name, help, value) in counters {
        head(body, name, "counter", help)?;
        each_group(body, &measured, &format!("{name}_total"), value)?;
    }
    Ok(())
}

fn head(body: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(body, "# HELP tidewire_group_{name} {help}.\n# TYPE tidewire_group_{name} {kind}")
}

fn each_group(
    body: &mut String,
    measured: &[Measured],
    name: &str,
    value: fn(&Measured) -> String,
) -> std::fmt::Result {
    for one in measured {
        let (group, value) = (label(&one.view.group), value(one));
        writeln!(body, "tidewire_group_{name}{{group=\"{group}\"}} {value}")?;
    }
    Ok(())
}

fn each_partition(
    body: &mut String,
    measured: &[Measured],
    name: &str,
    value: fn(&super::lag::PartitionLag) -> Option<String>,
) -> std::fmt::Result {
    for one in measured {
        let group = label(&one.view.group);
        for at in &one.view.partitions {
            let Some(value) = value(&one.lag.partition(at)) else { continue };
            let labels = format!("group=\"{group}\",partition=\"{}\"", at.partition);
            writeln!(body, "tidewire_group_{name}{{{labels}}} {value}")?;
        }
    }
    Ok(())
}

/// A name as a label's value. Names have no control characters.
fn label(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_do_not_break_the_text() {
        assert_eq!(label(r#"a"b\c"#), r#"a\"b\\c"#);
    }
}
