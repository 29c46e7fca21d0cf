//! What the server counts, as a scraper reads it.

use std::collections::BTreeMap;

use crate::http::Http;
use crate::wait::eventually;

/// One reading: every sample by its name, with its labels.
#[derive(Debug, Clone)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Reads them now.
    pub async fn read(http: &Http) -> Metrics {
        let answer = http.get("/metrics").await;
        assert_eq!(answer.status, 200, "/metrics: {}", answer.text());
        let text = answer.text();
        assert!(text.ends_with("# EOF\n"), "the metrics do not end as OpenMetrics do");
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            let value = value.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
            (name.trim_start_matches("tidewire_").to_owned(), value)
        };
        Metrics(text.lines().filter(|line| !line.starts_with('#')).map(sample).collect())
    }

    /// One sample, whose name is written without `tidewire_`.
    pub fn get(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("there is no metric {name}"))
    }

    /// Every sample whose name begins so.
    pub fn all(&self, beginning: &str) -> Vec<f64> {
        let found = self.0.iter().filter(|(name, _)| name.starts_with(beginning));
        found.map(|(_, value)| *value).collect()
    }

    /// Waits until a sample has this value.
    pub async fn shows(http: &Http, name: &str, value: f64) -> Metrics {
        eventually(&format!("{name} is {value}"), async || {
            let metrics = Metrics::read(http).await;
            (metrics.0.get(name) == Some(&value)).then_some(metrics)
        })
        .await
    }

    /// Waits until a sample has at least this value.
    pub async fn reaches(http: &Http, name: &str, value: f64) -> Metrics {
        eventually(&format!("{name} reaches {value}"), async || {
            let metrics = Metrics::read(http).await;
            metrics.0.get(name).is_some_and(|&is| is >= value).then_some(metrics)
        })
        .await
    }
}
