//! `tidewire connections`: the connections of all servers that share the database.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use tidewire_client::{Client, Connection, ConnectionFilter, Node};

use super::table::{self, Column, to_the_second};
use crate::cli::{ClientFlags, ConnectionsFlags};

/// Asks every node and prints what they answer.
pub(crate) async fn run(flags: ConnectionsFlags) -> anyhow::Result<ExitCode> {
    let client = super::client(&flags.client)?;
    let nodes = client.nodes().await.context("cannot list the nodes")?;
    let filter = ConnectionFilter {
        connection_id: flags.connection,
        user_id: flags.user,
        key_id: flags.key,
        limit: Some(flags.limit),
    };
    let (mut found, mut total, mut exit) = (Vec::new(), 0, ExitCode::SUCCESS);
    for node in &nodes {
        match ask(&client, &flags.client, node, &filter).await {
            Ok(told) => {
                total += told.total;
                found.extend(told.connections);
            }
            Err(error) => {
                eprintln!("{} does not list its connections: {error:#}", node.name);
                exit = ExitCode::FAILURE;
            }
        }
    }
    let mut out = io::stdout().lock();
    if flags.json {
        for connection in &found {
            serde_json::to_writer(&mut out, connection).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
        return Ok(exit);
    }
    print(&mut out, &found)?;
    if u64::try_from(found.len()).is_ok_and(|told| told < total) {
        eprintln!("{} of {total}; --limit N shows more of each node", found.len());
    }
    Ok(exit)
}

/// The node that answers is reached as it was, the others by the URLs they give.
async fn ask(
    client: &Client,
    flags: &ClientFlags,
    node: &Node,
    filter: &ConnectionFilter,
) -> anyhow::Result<tidewire_client::Connections> {
    if node.answered {
        return Ok(client.connections(filter).await?);
    }
    let url = node.url.clone().filter(|url| !url.is_empty());
    let url = url.context("it gives no URL (public_url)")?;
    let flags = ClientFlags { url, token: flags.token.clone(), ca: flags.ca.clone(), port: None };
    Ok(super::client(&flags)?.connections(filter).await?)
}

const COLUMNS: usize = 10;

const HEAD: [Column; COLUMNS] = [
    Column::left("connection"),
    Column::left("node"),
    Column::left("who"),
    Column::left("by"),
    Column::left("address"),
    Column::left("since"),
    Column::left("last heard"),
    Column::right("subscriptions"),
    Column::right("queued"),
    Column::left("user agent"),
];

fn print(out: &mut impl Write, connections: &[Connection]) -> io::Result<()> {
    let rows: Vec<[String; COLUMNS]> = connections.iter().map(row).collect();
    table::print(out, &HEAD, &rows)
}

fn row(connection: &Connection) -> [String; COLUMNS] {
    let metadata = &connection.metadata;
    [
        connection.connection_id.clone(),
        connection.node.clone(),
        connection.who.clone().unwrap_or_else(|| "unknown yet".to_owned()),
        metadata.transport.clone(),
        metadata.address.clone().unwrap_or_default(),
        to_the_second(&connection.connected_at),
        connection.last_heartbeat_at.as_deref().map(to_the_second).unwrap_or_default(),
        connection.subscriptions.to_string(),
        connection.queued_events.to_string(),
        metadata.user_agent.clone().unwrap_or_default(),
    ]
}
