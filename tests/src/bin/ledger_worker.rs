//! A worker that writes what it handles into a ledger, to be killed by stories.
//!
//! `ledger-worker DATABASE-OR-FOLDER GROUP MEMBER never|before:N|between:N|after:N`: the last says in which run of
//! the handler it ends its own process, and where in it. It says `working` when it begins to. With a folder it
//! also produces, for no other process can.

use std::sync::Arc;
use std::time::Duration;

use tidewire_consumer::{Builder, Consumer};
use tidewire_store_sqlite::SqliteStore;
use tidewire_stories::ledger::{Abort, Keeper, open_sqlite, run_sqlite};

/// Between two transactions of what a worker in a folder produces.
const PAUSE: Duration = Duration::from_millis(2);

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [at, group, member, abort] = arguments.as_slice() else {
        panic!("DATABASE-OR-FOLDER GROUP MEMBER never|before:N|between:N|after:N")
    };
    let keeper = keeper(abort);
    let member = |builder: Builder| {
        builder
            .group(group)
            .member(member)
            .partitions(8)
            .batch_size(20)
            .tables(["orders"])
            .retry(Duration::from_millis(10), Duration::from_millis(200))
    };
    let worked = if at.contains("://") {
        say_working();
        member(Consumer::builder(at.as_str())).run(keeper).await
    } else {
        let store = open_sqlite(at.into()).await;
        say_working();
        let work = member(Consumer::builder(Arc::clone(&store))).run(keeper);
        tokio::select! {
            worked = work => worked,
            () = produce(&store) => unreachable!("it produces for ever"),
        }
    };
    match worked {
        Ok(stats) => eprintln!("stopped after {} events", stats.events),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

#[expect(clippy::print_stdout, reason = "this is what the program is for")]
fn say_working() {
    println!("working");
}

fn keeper(abort: &str) -> Keeper {
    let Some((place, turns)) = abort.split_once(':') else { return Keeper::default() };
    let place = match place {
        "before" => Abort::Before,
        "between" => Abort::Between,
        "after" => Abort::After,
        other => panic!("there is no place {other} to abort at"),
    };
    Keeper::aborting(place, turns.parse().expect("the number of a run"))
}

/// Transactions of several hosts and users, for ever.
async fn produce(store: &SqliteStore) {
    for n in 0_u32.. {
        let rows = if n % 20 == 0 { 60 } else { 1 + n % 7 };
        let row = |i: u32| format!("('h{}', 'u{}', '{n}.{i}')", (n + i) % 24, i % 3);
        let rows: Vec<String> = (0..rows).map(row).collect();
        let sql = format!("INSERT INTO orders (host, usr, what) VALUES {}", rows.join(", "));
        run_sqlite(store, &sql).await;
        tokio::time::sleep(PAUSE).await;
    }
}
