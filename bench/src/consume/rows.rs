//! What was measured, and the table of it.

use anyhow::Result;
use serde::Serialize;

use super::order::Effect;
use super::subject::{Role, Subject};
use super::worker::Measured;
use crate::cost::Cost;
use crate::median::median;
use crate::report::Report;
use crate::scale::Consume;
use crate::table::{Table, count, decimals, optional};

/// One subject with one handler.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) subject: Subject,
    role: Role,
    pub(crate) effect: Effect,
    /// Of the rounds; their median is what is compared.
    events_per_second: Vec<f64>,
    /// Of the bare loop with the same handler, the median of the rounds' ratios.
    pub(crate) of_bare: Option<f64>,
    /// Of the last round, the start included. The worker stands as the server.
    cpu_per_event: Option<Cost>,
    /// Of the node that the worker speaks to, if there is one.
    node_us: Option<f64>,
    pub(crate) failure: Option<String>,
}

impl Row {
    pub(crate) fn new(subject: Subject, effect: Effect) -> Self {
        Self {
            subject,
            role: subject.role(),
            effect,
            events_per_second: Vec::new(),
            of_bare: None,
            cpu_per_event: None,
            node_us: None,
            failure: None,
        }
    }

    pub(crate) fn label(&self) -> String {
        format!("{}, {} handler", self.subject.name(), self.effect.name())
    }

    pub(crate) fn rate(&self) -> Option<f64> {
        median(self.events_per_second.clone())
    }

    /// Takes what a round gave. A failure of a queue is its row; any other also fails the run, at its end.
    pub(crate) fn note(&mut self, measured: Result<Measured>, report: &mut Report) {
        let said = match measured {
            Ok(Measured { done, cost, node_us }) => {
                let rate = done.events as f64 / done.seconds;
                self.events_per_second.push(rate);
                (self.cpu_per_event, self.node_us) = (Some(cost), node_us);
                format!("{:>9} /s", rate_text(rate))
            }
            Err(error) => {
                let failure = format!("{error:#}");
                if self.role != Role::Queue {
                    report.note_failure(format!("{}: {failure}", self.label()));
                }
                let said = format!("FAILED: {failure}");
                self.failure = Some(failure);
                said
            }
        };
        println!("{:<32}  {:<8}  {said}", self.subject.name(), self.effect.name());
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.subject.name(), self.effect.name().to_owned()];
        match (self.rate(), &self.cpu_per_event, &self.failure) {
            (Some(rate), Some(cost), None) => {
                let [worker, database, _, other] = cost.columns(1);
                let (of_bare, node) = (optional(self.of_bare, 2), optional(self.node_us, 1));
                cells.extend([rate_text(rate), of_bare, worker, node, database, other]);
            }
            (_, _, failure) => {
                cells.push(format!("FAILED: {}", failure.as_deref().unwrap_or("not measured")));
            }
        }
        cells
    }
}

/// Round by round, so that a machine that gets slower or faster meanwhile does so for both.
pub(crate) fn compare_with_bare(rows: &mut [Row]) {
    for effect in Effect::ALL {
        let is_bare = |row: &&Row| row.subject == Subject::Bare && row.effect == effect;
        let bare = rows.iter().find(is_bare).map(|row| row.events_per_second.clone());
        for row in rows.iter_mut().filter(|row| row.effect == effect) {
            let rates = row.events_per_second.iter().zip(bare.iter().flatten());
            row.of_bare = median(rates.map(|(rate, bare)| rate / bare).collect());
        }
    }
}

pub(crate) fn print(scale: &Consume, rows: &[Row]) {
    let [_, database, _, other] = Cost::HEADINGS;
    let mut table = Table::new(&[
        "who",
        "handler",
        "events/s",
        "of bare",
        "worker us",
        "node us",
        database,
        other,
    ]);
    rows.iter().for_each(|row| table.row(row.cells()));
    let jobs = count(scale.jobs as f64);
    table.print(&format!(
        "Events through consumer groups, batches of 100 where none is named; queues of {jobs} jobs (medians of the rounds; us of \
         CPU per event)"
    ));
}

/// Some queues take less than one a second.
fn rate_text(rate: f64) -> String {
    if rate < 10.0 { decimals(rate, 1) } else { count(rate) }
}
