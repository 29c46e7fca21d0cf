//! The engine against a model of the database: at every position that is told, what someone was told is
//! what the query gives there.
//!
//! A failure names its seed. The ignored test runs many more of them, and takes as long.
//!
//! - `client`: someone who follows a query, believes what is told, and holds every position against
//!   the database
//! - `database`: a database as small as it can be
//! - `queries`: the queries of a simulation, each with what the database would answer
//! - `random`: numbers that a seed decides
//! - `driver`: everything that happens around an engine, one step at a time, in an order that a seed
//!   decides

mod client;
mod database;
mod driver;
mod queries;
mod random;

use std::sync::Arc;

use serde_json::value::RawValue;

use super::EngineOptions;
use driver::{RareCases, Simulation, SimulationConfig};
use queries::SimulatedQuery;
pub(super) use queries::bound;

const STEPS: usize = 800;

const ROOMY: EngineOptions = EngineOptions {
    rows_max: 1000,
    transaction_rows_max: 1000,
    state_bytes_max: 1 << 20,
    total_state_bytes_max: 1 << 24,
    unindexed_max: usize::MAX,
};

fn values(row: &[i64]) -> Vec<Box<RawValue>> {
    let json = |value: &i64| match *value {
        queries::NULL => "null".to_owned(),
        value => value.to_string(),
    };
    row.iter().map(|value| RawValue::from_string(json(value)).expect("JSON")).collect()
}

/// Says which seed it was when something goes wrong.
struct Named(&'static str, u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the simulation {:?} failed with the seed {}", self.0, self.1);
        }
    }
}

fn run(name: &'static str, config: SimulationConfig, seeds: std::ops::Range<u64>) -> RareCases {
    let mut all = RareCases::default();
    let asked: Arc<[SimulatedQuery]> = queries::queries().into();
    for seed in seeds {
        let named = Named(name, seed);
        let mut simulation = Simulation::new(config, Arc::clone(&asked), seed);
        for _ in 0..STEPS {
            simulation.step();
        }
        simulation.finish();
        all += simulation.seldom;
        drop(named);
    }
    eprintln!("{name}: {all:?}");
    all
}

const CALM: SimulationConfig =
    SimulationConfig { is_one_file: false, has_quirks: false, options: ROOMY };

// Q1, Q2, Q3, Q5.
#[test]
fn every_place_told_is_exact_where_the_log_is_behind_the_database() {
    let seen = run("behind", CALM, 0..100);
    assert!(seen.begun > 0 && seen.unplaced > 0 && seen.settled > 0 && seen.resets > 0);
    assert!(seen.changes > 0 && seen.resumed > 0);
    assert_eq!((seen.demotions, seen.ended), (0, 0));
}

#[test]
fn every_place_told_is_exact_where_log_and_rows_are_one_file() {
    let seen = run("one file", SimulationConfig { is_one_file: true, ..CALM }, 0..60);
    assert!(seen.begun > 0 && seen.changes > 0 && seen.resumed > 0);
}

#[test]
fn every_place_told_is_exact_when_events_say_less_than_happened() {
    let seen = run("quirks", SimulationConfig { has_quirks: true, ..CALM }, 0..100);
    assert!(seen.demotions > 0 && seen.resets > 0 && seen.ended > 0);
}

// Q10.
#[test]
fn what_does_not_fit_ends_or_is_read_again_and_never_lies() {
    let options = EngineOptions {
        rows_max: 6,
        transaction_rows_max: 2,
        state_bytes_max: 120,
        total_state_bytes_max: 300,
        unindexed_max: usize::MAX,
    };
    for has_quirks in [false, true] {
        let seen = run("little room", SimulationConfig { has_quirks, options, ..CALM }, 0..60);
        assert!(seen.ended > 0 && seen.changes > 0);
    }
}

#[test]
#[ignore = "takes an hour"]
fn many_more_seeds_are_exact_too() {
    for seed in 1000..30_000 {
        for is_one_file in [false, true] {
            for has_quirks in [false, true] {
                run("many", SimulationConfig { is_one_file, has_quirks, ..CALM }, seed..seed + 1);
            }
        }
    }
}
