//! `tidewire nodes`: the servers that share the database, as a table or as lines of JSON.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use tidewire_client::Node;

use super::table::{self, Column, to_the_second};
use crate::cli::NodesFlags;

/// Asks once and prints what is answered.
pub(crate) async fn run(flags: NodesFlags) -> anyhow::Result<ExitCode> {
    let client = super::client(&flags.client)?;
    let nodes = client.nodes().await.context("cannot list the nodes")?;
    let mut out = io::stdout().lock();
    if flags.json {
        for node in &nodes {
            serde_json::to_writer(&mut out, node).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
    } else {
        print(&mut out, &nodes)?;
    }
    Ok(ExitCode::SUCCESS)
}

const COLUMNS: usize = 9;

const HEAD: [Column; COLUMNS] = [
    Column::left(""),
    Column::left("node"),
    Column::left("url"),
    Column::left("version"),
    Column::left("up since"),
    Column::right("lease"),
    Column::right("connections"),
    Column::right("subscriptions"),
    Column::right("lag"),
];

fn print(out: &mut impl Write, nodes: &[Node]) -> io::Result<()> {
    let rows: Vec<[String; COLUMNS]> = nodes.iter().map(row).collect();
    table::print(out, &HEAD, &rows)
}

fn row(node: &Node) -> [String; COLUMNS] {
    [
        if node.answered { "*" } else { "" }.to_owned(),
        node.name.clone(),
        node.url.clone().unwrap_or_default(),
        node.version.clone(),
        to_the_second(&node.started_at),
        format!("{}.{} s", node.lease_ms / 1_000, node.lease_ms % 1_000 / 100),
        node.connections.to_string(),
        node.subscriptions.to_string(),
        node.lag.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest() {
        let node = |name: &str, subscriptions, answered| Node {
            name: name.to_owned(),
            url: Some(format!("http://{name}.example")),
            version: "0.1.0".to_owned(),
            started_at: "2026-01-02T03:04:05.678Z".to_owned(),
            lease_ms: 9_870,
            connections: 3,
            subscriptions,
            position: String::new(),
            lag: 0,
            answered,
        };
        let mut out = Vec::new();
        let nodes = [node("a", 7, false), node("longer", 1_234_567, true)];
        print(&mut out, &nodes).expect("memory takes it");
        insta::assert_snapshot!(String::from_utf8(out).expect("text"));
    }
}
