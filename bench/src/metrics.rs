//! What Tidewire's `/metrics` says about appends: how many events, in how many commits.

use std::net::SocketAddr;

use anyhow::{Context, Result};

use crate::load::client::Client;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AppendCounters {
    commits: f64,
    events: f64,
}

impl AppendCounters {
    pub(crate) fn scrape(address: SocketAddr) -> Result<Self> {
        let mut client = Client::connect(address)?;
        client.get("/metrics")?;
        parse(&String::from_utf8_lossy(&client.body)).context("/metrics has no append counters")
    }

    /// Events per commit between two scrapes; `None` when nothing was committed.
    pub(crate) fn batch_since(self, earlier: Self) -> Option<f64> {
        let commits = self.commits - earlier.commits;
        (commits > 0.0).then(|| (self.events - earlier.events) / commits)
    }
}

fn parse(text: &str) -> Option<AppendCounters> {
    Some(AppendCounters {
        commits: sum(text, "tidewire_append_commits_total")?,
        events: sum(text, "tidewire_append_events_total")?,
    })
}

/// The sum of a counter over its labels; `None` when it does not occur.
fn sum(text: &str, name: &str) -> Option<f64> {
    let values: Vec<f64> = text
        .lines()
        .filter_map(|line| line.strip_prefix(name))
        .filter(|rest| rest.starts_with([' ', '{']))
        .filter_map(|rest| rest.rsplit(' ').next()?.parse().ok())
        .collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_their_labels() {
        let text = "# TYPE tidewire_append_commits counter\n\
                    tidewire_append_commits_total 4\n\
                    tidewire_append_events_total{store=\"a\"} 10\n\
                    tidewire_append_events_total{store=\"b\"} 30\n";
        let counters = parse(text).expect("both are there");
        let zero = AppendCounters { commits: 0.0, events: 0.0 };
        assert_eq!(counters.batch_since(zero), Some(10.0));
        assert_eq!(counters.batch_since(counters), None);
    }
}
