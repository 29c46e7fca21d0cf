//! `tidewire-bench`: measures Tidewire beside its peers, and against the raw limits of the database
//! below it and of the sockets above it.
//!
//! `bench/run` finds or starts what is needed (binary, peers, PostgreSQL) and calls this. Load goes
//! to 127.0.0.1 only.

#![expect(clippy::print_stdout, reason = "the tables this prints are what it is for")]

mod aims;
mod append;
mod bare_loop;
mod bare_server;
mod capture;
mod consume;
mod cost;
mod cpu;
mod entities;
mod fanout;
mod latency;
mod livequery;
mod load;
mod machine;
mod matching;
mod median;
mod metrics;
mod outcome;
mod postgres;
mod quiet;
mod raw;
mod read;
mod report;
mod scale;
mod servers;
mod table;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;

use quiet::Disturbed;
use report::Report;
use scale::Scale;
use servers::{Installed, Kind};

/// The server's own: what the engine's parts cost in memory and time is measured with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Side-by-side benchmarks of Tidewire
#[derive(Debug, Clone, Parser)]
#[command(version)]
struct Options {
    /// What to measure
    #[arg(value_enum, default_value = "all")]
    what: What,
    /// A few seconds with tiny sizes: proves that everything runs, says nothing about speed
    #[arg(long, conflicts_with = "full")]
    smoke: bool,
    /// Also the log of ten million events, and an audience of 19,000
    #[arg(long)]
    full: bool,
    /// Length of each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    seconds: u64,
    /// Wait and repeat, at most so long for each measurement, while others use this machine
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    quiet_wait: u64,
    /// Only these servers
    #[arg(long, value_enum, value_delimiter = ',')]
    servers: Vec<Kind>,
    /// Only these parts
    #[arg(long = "part", value_enum, value_delimiter = ',')]
    parts: Vec<Part>,
    /// Where append.json, read.json, fanout.json, capture.json, consume.json, entities.json, livequery.json and
    /// match.json go
    #[arg(long, value_name = "FOLDER", default_value = "bench/results")]
    results: PathBuf,
    /// The revision under test, for the report
    #[arg(long)]
    revision: Option<String>,
    /// Where the bare loop or the bare server listens
    #[arg(long, hide = true)]
    listen: Option<SocketAddr>,
    /// The store that the bare server writes to
    #[arg(long, hide = true)]
    data: Option<PathBuf>,
    /// Which combination of `match`, or which worker of `consume`
    #[arg(long, hide = true)]
    combination: Option<String>,
    #[command(flatten)]
    installed: Installed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    Append,
    Read,
    Fanout,
    Capture,
    Consume,
    Entities,
    Livequery,
    Match,
    All,
    /// Not a benchmark: the loop that fan-out is measured against, as a server
    #[value(hide = true)]
    BareLoop,
    /// Not a benchmark: the least that takes appends over HTTP, as a server
    #[value(hide = true)]
    BareServer,
    /// Not a benchmark: one combination of `match`, in a process of its own
    #[value(hide = true)]
    MatchOne,
    /// Not a benchmark: one worker of `consume`, in a process of its own
    #[value(hide = true)]
    ConsumeOne,
}

/// A section of a benchmark, to run alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// append: producers x payload sizes, beside the raw limit
    Matrix,
    /// append: beside an idle REPEATABLE READ transaction
    IdleSnapshot,
    /// append: to logs from thousands to millions of events
    Flatness,
    /// read: whole streams
    CatchUp,
    /// read: live deliveries over SSE
    FanOut,
    /// fanout: paced and flat out, for each size of the audience
    Deliver,
    /// fanout: memory of idle connections
    Idle,
    /// fanout: a small stream beside a hot one
    Mixed,
    /// fanout: some subscribers stop reading
    SlowReaders,
    /// fanout: what the Rust client receives
    Client,
    /// fanout: what it buys to look at followers ahead of writing to them
    LookAhead,
    /// capture: writers' throughput, with it and without
    Writers,
    /// capture: from commit to a subscriber
    Latency,
    /// capture: what piled up while no node ran
    Backlog,
    /// capture: changes a second from commit to a subscriber
    Sustained,
    /// consume: groups on PostgreSQL, beside a bare loop
    Groups,
    /// consume: groups over HTTP, at a node on PostgreSQL
    Http,
    /// consume: queues of jobs on PostgreSQL
    Jobs,
    /// consume: groups on SQLite
    Embedded,
    /// entities: subscribing, unsubscribing, finding subscribers, cleaning up
    Operations,
    /// entities: from a change to those who subscribe, and what that asks of the database
    Invalidations,
    /// livequery: from an insert to the change, one at a time
    Paced,
    /// livequery: inserts flat out
    Flood,
    /// livequery: the same queries, run again and again
    Polling,
    /// match: the index of queries
    Index,
    /// match: the whole engine, from the text of queries to what is told
    Engine,
    /// match: running queries again on PostgreSQL
    Rerun,
}

impl Options {
    fn scale(&self) -> Scale {
        let measure = Duration::from_secs(self.seconds);
        match (self.smoke, self.full) {
            (true, _) => Scale::smoke(),
            (false, true) => Scale::full(measure),
            (false, false) => Scale::standard(measure),
        }
    }

    fn measure_quietly<T: Disturbed>(&self, measure: impl FnMut() -> Result<T>) -> Result<T> {
        quiet::measure(Duration::from_secs(self.quiet_wait), measure)
    }

    fn measure_quietly_on<S, T: Disturbed>(
        &self,
        subject: &mut S,
        idle: impl FnMut(&mut S, Duration) -> Result<()>,
        measure: impl FnMut(&mut S) -> Result<T>,
    ) -> Result<T> {
        quiet::measure_on(Duration::from_secs(self.quiet_wait), subject, idle, measure)
    }

    fn runs(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    fn open_report(
        &self,
        benchmark: &'static str,
        scale: &Scale,
        kinds: &[Kind],
    ) -> Result<Report> {
        let is_wanted = |kind: &Kind| self.servers.is_empty() || self.servers.contains(kind);
        let kinds: Vec<Kind> = kinds.iter().copied().filter(is_wanted).collect();
        Report::open(benchmark, scale.name, self.revision.clone(), &self.installed, &kinds)
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    if options.what == What::BareLoop {
        return bare_loop::run(options.listen.context("--listen is missing")?);
    }
    if options.what == What::BareServer {
        let listen = options.listen.context("--listen is missing")?;
        return bare_server::run(listen, &options.data.context("--data is missing")?);
    }
    if let What::MatchOne | What::ConsumeOne = options.what {
        let combination = options.combination.context("--combination is missing")?;
        return match options.what {
            What::MatchOne => matching::run_combination(&combination),
            _ => consume::run_order(&combination),
        };
    }
    let scale = options.scale();
    if matches!(options.what, What::Append | What::All) {
        append::run(&options, &scale)?;
    }
    if matches!(options.what, What::Read | What::All) {
        read::run(&options, &scale)?;
    }
    if matches!(options.what, What::Fanout | What::All) {
        fanout::run(&options, &scale)?;
    }
    if matches!(options.what, What::Capture | What::All) {
        capture::run(&options, &scale)?;
    }
    if matches!(options.what, What::Consume | What::All) {
        consume::run(&options, &scale)?;
    }
    if matches!(options.what, What::Entities | What::All) {
        entities::run(&options, &scale)?;
    }
    if matches!(options.what, What::Livequery | What::All) {
        livequery::run(&options, &scale)?;
    }
    if matches!(options.what, What::Match | What::All) {
        matching::run(&options, &scale)?;
    }
    Ok(())
}
