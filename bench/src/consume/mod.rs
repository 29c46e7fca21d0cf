//! `consume`: events a second through consumer groups, beside a bare loop that reads the same log, and beside
//! queues of jobs on the same PostgreSQL.
//!
//! Everybody works in a process of its own, in turn, several rounds over, each for some seconds or until nothing
//! is left. Where Tidewire's handlers write, every row is counted: one too many or too few fails the run.
//!
//! - `aims`: what consumer groups aim at
//! - `bare`: the limit
//! - `http`: workers in other languages
//! - `log`: a log of changes, filled by SQL into a store that the tidewire binary has made
//! - `order`: what a worker of this program is told to do
//! - `peers`: queues of jobs from npm, as they come and with what they have for working in batches
//! - `queue`: the queue that everybody writes by hand
//! - `rows`: what was measured, and the table of it
//! - `subject`: who is measured
//! - `tidewire`: Tidewire's own worker
//! - `worker`: a worker under measurement

mod aims;
mod bare;
mod http;
mod log;
mod order;
mod peers;
mod queue;
mod rows;
mod subject;
mod tidewire;
mod worker;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use self::bare::{BATCH, BATCH_LARGE};
use self::log::{Embedded, Fixture, check};
use self::order::{By, Order};
use self::peers::Peer;
use self::rows::Row;
use self::subject::Subject;
use self::worker::{Measured, Worker};
use crate::aims::Aims;
use crate::report::Report;
use crate::scale::{Consume, Scale};
use crate::servers::Kind;
use crate::table::count;
use crate::{Options, Part};

pub(crate) use self::order::{Effect, run as run_order};

pub(crate) fn run(options: &Options, scale: &Scale) -> Result<()> {
    let kinds = [Kind::TidewirePostgres, Kind::TidewireSqlite];
    let mut report = options.open_report("consume", scale, &kinds)?;
    let mut rows = Vec::new();
    let shared = [Part::Groups, Part::Http, Part::Jobs].map(|part| options.runs(part));
    if shared.contains(&true) && report.present().contains(&Kind::TidewirePostgres) {
        rows.extend(beside_each_other(options, &scale.consume, &mut report)?);
    }
    if options.runs(Part::Embedded) && report.present().contains(&Kind::TidewireSqlite) {
        rows.extend(embedded(options, &scale.consume, &mut report)?);
    }
    rows::print(&scale.consume, &rows);
    let mut aims = Aims::default();
    aims.of_consumers(&rows);
    aims.print();
    report.section("rows", &rows)?;
    report.section("aims", &aims)?;
    report.close(&options.results)
}

/// Who takes part on PostgreSQL.
fn subjects(options: &Options, scale: &Consume, report: &mut Report) -> Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    if options.runs(Part::Groups) {
        subjects.push(Subject::Bare);
        let library = |&partitions: &u32| Subject::Library { partitions, batch: BATCH };
        subjects.extend(scale.partitions.iter().map(library));
        subjects.push(Subject::Library { partitions: most(scale)?, batch: BATCH_LARGE });
    }
    if options.runs(Part::Http) {
        subjects.push(Subject::Http { workers: most(scale)? });
    }
    if options.runs(Part::Jobs) {
        let ways = [(1, 1), (8, 1), (1, BATCH), (8, BATCH), (8, BATCH_LARGE)];
        subjects.extend(ways.map(|(sessions, take)| Subject::Queue { sessions, take }));
        let mut versions = BTreeMap::new();
        for peer in Peer::ALL {
            match peer.version(&options.installed) {
                Ok(version) => {
                    subjects.push(Subject::Peer(peer));
                    versions.insert(peer.package, version);
                }
                Err(error) => report.note_absence(format!("{}: {error:#}", peer.name)),
            }
        }
        for (package, version) in &versions {
            println!("{package:<18}  {version}");
        }
        report.section("peers", &versions)?;
    }
    Ok(subjects)
}

fn most(scale: &Consume) -> Result<u32> {
    scale.partitions.iter().copied().max().context("there are partitions")
}

/// All of them in turn, on one database, several rounds over.
fn beside_each_other(options: &Options, scale: &Consume, report: &mut Report) -> Result<Vec<Row>> {
    let subjects = subjects(options, scale, report)?;
    let (events, rounds) = (count(scale.events as f64), scale.rounds);
    println!("\nconsume: a log of {events} events; each in turn, {rounds} rounds");
    let mut fixture = Fixture::prepare(options, scale.events)?;
    let of = |effect: Effect| subjects.iter().map(move |&subject| Row::new(subject, effect));
    let mut rows: Vec<Row> = Effect::ALL.into_iter().flat_map(of).collect();
    let is_peer = |row: &Row| matches!(row.subject, Subject::Peer(_));
    rows.retain(|row| !is_peer(row) || scale.peer_effects.contains(&row.effect));
    for _ in 0..scale.rounds {
        for row in rows.iter_mut().filter(|row| row.failure.is_none()) {
            let measured = options.measure_quietly(|| measure(options, scale, &mut fixture, row));
            row.note(measured, report);
        }
    }
    rows::compare_with_bare(&mut rows);
    Ok(rows)
}

fn measure(
    options: &Options,
    scale: &Consume,
    fixture: &mut Fixture,
    row: &Row,
) -> Result<Measured> {
    fixture.clear()?;
    let (url, postmaster) = (fixture.url().to_owned(), fixture.postmaster());
    let order = |by: By, place: &str, events: u64| order(scale, row, by, place, events).command();
    let mut server = None;
    let mut command = match row.subject {
        Subject::Library { partitions, batch } => {
            order(By::Library { partitions, batch }, &url, scale.events)?
        }
        Subject::Sqlite { partitions } => order(By::Sqlite { partitions }, &url, scale.events)?,
        Subject::Bare => order(By::Bare, &url, scale.events)?,
        Subject::Http { workers } => {
            let server = server.insert(fixture.serve(options)?);
            // A node that has just started takes in what others have written since the last one.
            fixture.catch_up()?;
            let place = format!("http://{}", server.address());
            order(By::Http { workers }, &place, scale.events)?
        }
        Subject::Queue { sessions, take } => {
            fixture.fill_queue(scale.jobs)?;
            order(By::Queue { sessions, take }, &url, scale.jobs)?
        }
        Subject::Peer(peer) => {
            let seconds = scale.measure.as_secs_f64();
            peer.command(&options.installed, row.effect, &url, scale.jobs, seconds)?
        }
    };
    let node = server.as_ref().map(crate::servers::Server::pid);
    let measured = Worker::start(&mut command).and_then(|mut w| w.work(postmaster, node));
    if let Some(server) = server {
        fixture.rest(server);
    }
    let measured = measured?;
    ensure!(measured.done.events > 0, "nothing was worked off in {:.1} s", measured.done.seconds);
    if let Some(finally) = measured.done.finally {
        check(row.effect, finally, fixture.effects()?)?;
    }
    Ok(measured)
}

/// With a group that has not begun: a measurement that was disturbed is repeated.
fn order(scale: &Consume, row: &Row, by: By, place: &str, events: u64) -> Order {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    Order {
        by,
        effect: row.effect,
        place: place.to_owned(),
        group: format!("{} {now_ms}", row.label()),
        events,
        seconds: scale.measure.as_secs_f64(),
    }
}

/// On SQLite: one process, one writer; partitions take turns.
fn embedded(options: &Options, scale: &Consume, report: &mut Report) -> Result<Vec<Row>> {
    let partitions = most(scale)?;
    let fixture = Embedded::prepare(options, scale.events)?;
    let place = fixture.data().to_string_lossy().into_owned();
    let subject = Subject::Sqlite { partitions };
    let mut rows: Vec<Row> = Effect::ALL.map(|effect| Row::new(subject, effect)).into();
    for row in &mut rows {
        let measured = options.measure_quietly(|| {
            fixture.clear()?;
            let order = order(scale, row, By::Sqlite { partitions }, &place, scale.events);
            let measured = Worker::start(&mut order.command()?)?.work(None, None)?;
            check(row.effect, measured.done.finally.unwrap_or_default(), fixture.effects()?)?;
            Ok(measured)
        });
        row.note(measured, report);
    }
    Ok(rows)
}
