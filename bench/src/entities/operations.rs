//! Subscribing to entities among a million subscriptions: by SQL, as the RxDB document's service does it,
//! and over the WebSocket, as a page does it.

use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use tokio_postgres::types::ToSql;

use super::fixture::{CODE, entities, filled, uuid};
use super::page::Page;
use crate::Options;
use crate::aims::Aims;
use crate::latency::{Latencies, Percentiles};
use crate::postgres::Session;
use crate::report::Report;
use crate::scale::{Entities, Scale};
use crate::servers::{Kind, Server};
use crate::table::{Table, count, decimals};

/// Entities of one page.
const PAGE: usize = 50;
/// Entities that changed at once.
const CHANGED: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    Subscribe,
    Unsubscribe,
    FindSubscribers,
    CleanUp,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Subscribe => "subscribe to 50 entities",
            Operation::Unsubscribe => "unsubscribe from 50 entities",
            Operation::FindSubscribers => "find the subscribers of 100 entities",
            Operation::CleanUp => "clean up a connection",
        }
    }

    /// What the RxDB document expects, in milliseconds.
    fn expected_ms(self) -> f64 {
        match self {
            Operation::Subscribe | Operation::CleanUp => 5.0,
            Operation::Unsubscribe => 3.0,
            Operation::FindSubscribers => 10.0,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    server: Kind,
    by: &'static str,
    operation: Operation,
    times: usize,
    #[serde(flatten)]
    latency: Percentiles,
}

pub(crate) fn run(options: &Options, scale: &Scale, report: &mut Report) -> Result<Vec<Row>> {
    let scale = &scale.entities;
    let mut rows = Vec::new();
    for kind in report.present() {
        let rows_there = scale.users * scale.subscriptions;
        println!(
            "\noperations: {rows_there} subscriptions of {} users, {}",
            scale.users,
            kind.name()
        );
        let store = filled(options, kind, scale)?;
        let server = Server::start_on(kind, &options.installed, store)?;
        if let Some(database) = server.database() {
            by_sql(&Session::connect(&database.url)?, scale, &mut rows, kind)?;
        }
        by_page(&server, scale, &mut rows)?;
    }
    let mut table =
        Table::new(&["operation", "server", "by", "times", "p50 ms", "p99 ms", "expected ms"]);
    for row in &rows {
        table.row(vec![
            row.operation.name().to_owned(),
            row.server.name().to_owned(),
            row.by.to_owned(),
            count(row.times as f64),
            decimals(row.latency.p50_ms, 2),
            decimals(row.latency.p99_ms, 2),
            decimals(row.operation.expected_ms(), 0),
        ]);
    }
    table.print("Subscriptions to entities");
    report.section("operations", &rows)?;
    Ok(rows)
}

pub(crate) fn judge(rows: &[Row], aims: &mut Aims) {
    for row in rows {
        let (operation, by, server) = (row.operation.name(), row.by, row.server.name());
        let aim = format!("{operation}, {by}, {server}: p50 ms");
        aims.at_most(aim, row.operation.expected_ms(), row.latency.p50_ms);
    }
}

/// The functions that are called by SQL, each call a transaction, synchronous_commit on.
fn by_sql(session: &Session, scale: &Entities, rows: &mut Vec<Row>, kind: Kind) -> Result<()> {
    let all = entities(scale);
    let mut done = |operation, latencies: Latencies| {
        let latency = latencies.percentiles();
        rows.push(Row { server: kind, by: "SQL", operation, times: scale.rounds, latency });
    };
    let (mut subscribe, mut unsubscribe) = (Latencies::default(), Latencies::default());
    let (mut find, mut clean_up) = (Latencies::default(), Latencies::default());
    let time = |sql: &str, params: &[&(dyn ToSql + Sync)], into: &mut Latencies| -> Result<()> {
        let statement = session.runtime.block_on(session.client.prepare(sql))?;
        let began = Instant::now();
        let answer = session.runtime.block_on(session.client.query(&statement, params));
        answer.with_context(|| format!("PostgreSQL: {sql}"))?;
        into.record(began.elapsed());
        Ok(())
    };
    for round in 0..scale.rounds {
        let (user, connection) = (uuid(scale.users + 1 + round), format!("new{round}"));
        let page = ids(round, PAGE, all);
        time(
            "SELECT app.bulk_subscribe($1::text::uuid, $2, 'project', $3::text[]::uuid[])",
            &[&user, &connection, &page],
            &mut subscribe,
        )?;
        time(
            "SELECT app.bulk_unsubscribe($1::text::uuid, 'project', $2::text[]::uuid[])",
            &[&user, &page],
            &mut unsubscribe,
        )?;
        let changed = ids(round, CHANGED, all);
        time(
            "SELECT * FROM app.get_batch_subscribers('project', $1::text[]::uuid[])",
            &[&changed],
            &mut find,
        )?;
        let gone = format!("c{}", 1 + round % scale.users);
        time("SELECT app.cleanup_connection_subscriptions($1)", &[&gone], &mut clean_up)?;
    }
    done(Operation::Subscribe, subscribe);
    done(Operation::Unsubscribe, unsubscribe);
    done(Operation::FindSubscribers, find);
    done(Operation::CleanUp, clean_up);
    Ok(())
}

/// A page that subscribes and unsubscribes: from the message to its answer.
fn by_page(server: &Server, scale: &Entities, rows: &mut Vec<Row>) -> Result<()> {
    let all = entities(scale);
    let mut page = Page::open(server.address())?;
    let (mut subscribed, mut unsubscribed) = (Latencies::default(), Latencies::default());
    for round in 0..scale.rounds {
        let wanted = ids(round, PAGE, all);
        for (say, answer, latencies) in [
            ("SUBSCRIBE", "subscription_created", &mut subscribed),
            ("UNSUBSCRIBE", "subscription_ended", &mut unsubscribed),
        ] {
            let began = Instant::now();
            page.say(say, CODE, &wanted)?;
            page.hears(answer)?;
            latencies.record(began.elapsed());
        }
    }
    let measured = [(Operation::Subscribe, subscribed), (Operation::Unsubscribe, unsubscribed)];
    for (operation, latencies) in measured {
        let (server, times) = (server.kind, scale.rounds);
        let latency = latencies.percentiles();
        rows.push(Row { server, by: "WebSocket", operation, times, latency });
    }
    Ok(())
}

/// Entities of a page, others each round.
fn ids(round: usize, count: usize, all: usize) -> Vec<String> {
    (0..count).map(|n| uuid((round * 131 + n * 17) % all)).collect()
}
