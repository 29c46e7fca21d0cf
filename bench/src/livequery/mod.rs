//! `livequery`: from an insert to the change on the socket, with ten thousand live queries on one node,
//! beside a client that runs them again every second.
//!
//! - `crowd`: the clients that follow the queries
//! - `paced`: one insert at a time
//! - `polling`: what it costs to do without
//! - `queries`: the queries that are followed
//! - `sustained`: inserts as fast as they are taken

mod crowd;
mod paced;
mod polling;
mod queries;
mod sustained;

use anyhow::Result;
use tidewire_client::{Client, NewWatch};

use crate::aims::Aims;
use crate::scale::{LiveQueries, Scale};
use crate::servers::{Kind, Server};
use crate::{Options, Part};

use crowd::Crowd;

pub(crate) fn run(options: &Options, scale: &Scale) -> Result<()> {
    let kinds = [Kind::TidewireSqlite, Kind::TidewirePostgres];
    let mut report = options.open_report("livequery", scale, &kinds)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut paced_rows, mut sustained_rows, mut polled) = (Vec::new(), Vec::new(), Vec::new());
    for kind in report.present() {
        let of = &scale.live_queries;
        println!(
            "\nlivequery: {} queries of {} connections, {}",
            of.queries,
            of.connections,
            kind.name()
        );
        let server = Server::start(kind, &options.installed)?;
        let client = Client::new(&format!("http://{}", server.address()), None)?;
        runtime.block_on(prepare(&client, of))?;
        if options.runs(Part::Polling) {
            polled.push(polling::measure(&runtime, &client, &server, of)?);
        }
        let mut crowd = runtime.block_on(Crowd::gather(&client, of))?;
        if options.runs(Part::Paced) {
            paced_rows.extend(paced::measure(&runtime, &client, kind, of, &mut crowd)?);
        }
        if options.runs(Part::Flood) {
            sustained_rows.push(sustained::measure(&runtime, &client, &server, of, &mut crowd)?);
        }
    }
    paced::print(&paced_rows);
    sustained::print(&sustained_rows);
    polling::print(&polled);
    let mut aims = Aims::default();
    polling::judge(&sustained_rows, &polled, &mut aims);
    aims.print();
    report.section("paced", &paced_rows)?;
    report.section("flood", &sustained_rows)?;
    report.section("polling", &polled)?;
    report.section("aims", &aims)?;
    report.close(&options.results)
}

/// Makes and fills the tables, which are watched from then on.
async fn prepare(client: &Client, scale: &LiveQueries) -> Result<()> {
    for statement in queries::tables(scale) {
        client.sql(&statement, &[]).await?;
    }
    for table in ["orders", "customers"] {
        client.watch(&NewWatch { table: table.to_owned(), ..NewWatch::default() }).await?;
    }
    Ok(())
}
