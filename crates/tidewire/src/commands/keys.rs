//! `tidewire keys`: making, listing, revoking and rotating API keys of a running server.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use tidewire_client::{Client, Key, NewKey};

use super::table::{self, Column, to_the_second};
use crate::cli::{CreateKeyFlags, KeysCommand, ListKeysFlags, RevokeKeyFlags, RotateKeyFlags};

pub(crate) async fn run(command: KeysCommand) -> anyhow::Result<ExitCode> {
    match command {
        KeysCommand::Create(flags) => create(*flags).await,
        KeysCommand::List(flags) => list(flags).await,
        KeysCommand::Revoke(flags) => revoke(flags).await,
        KeysCommand::Rotate(flags) => rotate(flags).await,
    }
}

async fn create(flags: CreateKeyFlags) -> anyhow::Result<ExitCode> {
    let scopes = scopes(&flags)?;
    let client = super::client(&flags.client)?;
    let made = client.create_key(&flags.name, &scopes, flags.expires).await;
    print_once(&client, &made.context("cannot make a key")?)?;
    Ok(ExitCode::SUCCESS)
}

async fn rotate(flags: RotateKeyFlags) -> anyhow::Result<ExitCode> {
    let client = super::client(&flags.client)?;
    let made = client.rotate_key(flags.id, flags.overlap, flags.expires).await;
    let made = made.with_context(|| format!("cannot rotate key {}", flags.id))?;
    print_once(&client, &made)?;
    let old = client.keys().await.context("cannot list the keys")?;
    let end = old.iter().find(|key| key.id == flags.id).and_then(|key| key.expires_at.clone());
    if let Some(end) = end {
        eprintln!("Key {} stays valid until {}.", flags.id, to_the_second(&end));
    }
    Ok(ExitCode::SUCCESS)
}

async fn revoke(flags: RevokeKeyFlags) -> anyhow::Result<ExitCode> {
    let client = super::client(&flags.client)?;
    for id in flags.ids {
        client.revoke_key(id).await.with_context(|| format!("cannot revoke key {id}"))?;
        let url = client.url();
        eprintln!("Key {id} of {url} is revoked, and its connections are closed.");
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(flags: ListKeysFlags) -> anyhow::Result<ExitCode> {
    let mut keys = super::client(&flags.client)?.keys().await.context("cannot list the keys")?;
    if !flags.all {
        keys.retain(|key| key.is_valid);
    }
    let mut out = io::stdout().lock();
    if flags.json {
        for key in &keys {
            serde_json::to_writer(&mut out, key).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
    } else {
        let rows: Vec<[String; 6]> = keys.iter().map(row).collect();
        table::print(&mut out, &HEAD, &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

const HEAD: [Column; 6] = [
    Column::right("id"),
    Column::left("name"),
    Column::left("state"),
    Column::left("last used"),
    Column::left("expires"),
    Column::left("scopes"),
];

fn row(key: &Key) -> [String; 6] {
    let time = |time: &Option<String>| time.as_deref().map_or("-".to_owned(), to_the_second);
    let state = match (key.is_active, key.is_valid) {
        (false, _) => "revoked",
        (true, false) => "expired",
        (true, true) => "good",
    };
    [
        key.id.to_string(),
        key.name.clone(),
        state.to_owned(),
        time(&key.last_used_at),
        time(&key.expires_at),
        key.scopes.to_string(),
    ]
}

/// The key alone on the standard output, so that a script can take it; the rest beside it.
fn print_once(client: &Client, made: &NewKey) -> anyhow::Result<()> {
    let NewKey { key, notes, known } = made;
    for note in notes {
        eprintln!("Note: {note}");
    }
    // A key is good at one server only, and which one that is may have come from a variable.
    eprintln!("Key {} ({}) of {}, shown this once:", known.id, known.name, client.url());
    writeln!(io::stdout().lock(), "{key}")?;
    Ok(())
}

/// The scopes that the flags describe.
fn scopes(flags: &CreateKeyFlags) -> anyhow::Result<Value> {
    if let Some(text) = &flags.scopes {
        return serde_json::from_str(text).context("--scopes is not JSON");
    }
    let mut scopes = Map::new();
    scopes.insert("tables".to_owned(), json!(flags.tables));
    if !flags.streams.is_empty() {
        scopes.insert("streams".to_owned(), json!(flags.streams));
    }
    if !flags.append_only_to.is_empty() {
        scopes.insert("append".to_owned(), json!(flags.append_only_to));
    }
    if !flags.columns.is_empty() {
        let columns = flags
            .columns
            .iter()
            .map(|(table, names)| (table.clone(), json!(names.split('+').collect::<Vec<_>>())));
        scopes.insert("columns".to_owned(), Value::Object(columns.collect()));
    }
    if !flags.rows.is_empty() {
        let rows = flags.rows.iter().map(|(table, rule)| (table.clone(), json!(rule)));
        scopes.insert("rows".to_owned(), Value::Object(rows.collect()));
    }
    if !flags.groups.is_empty() {
        scopes.insert("groups".to_owned(), json!(flags.groups));
    }
    if !flags.can.is_empty() {
        scopes.insert("can".to_owned(), json!(flags.can));
    }
    if let Some(host) = &flags.host {
        scopes.insert("host".to_owned(), json!(host));
    }
    Ok(Value::Object(scopes))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn scopes_of(flags: &[&str]) -> Value {
        let command = ["tidewire", "keys", "create", "--name", "a"];
        let cli = Cli::try_parse_from(command.iter().chain(flags)).expect("well formed");
        match cli.command {
            Command::Keys(KeysCommand::Create(flags)) => scopes(&flags).expect("scopes"),
            _ => Value::Null,
        }
    }

    #[test]
    fn flags_become_scopes() {
        let flags = ["--tables", "orders,customers", "--streams", "doc/*", "--can", "read,append"];
        assert_eq!(
            scopes_of(&flags),
            json!({
                "tables": ["orders", "customers"],
                "streams": ["doc/*"],
                "can": ["read", "append"],
            })
        );
        let flags =
            ["--tables", "orders", "--columns", "orders=id+total", "--rows", "orders=a = 'b'"];
        assert_eq!(
            scopes_of(&flags),
            json!({
                "tables": ["orders"],
                "columns": { "orders": ["id", "total"] },
                "rows": { "orders": "a = 'b'" },
            })
        );
        let flags = ["--groups", "billing-*", "--can", "consume"];
        let expected = json!({ "tables": [], "groups": ["billing-*"], "can": ["consume"] });
        assert_eq!(scopes_of(&flags), expected);
        assert_eq!(scopes_of(&["--streams", "*"]), json!({ "tables": [], "streams": ["*"] }));
        assert_eq!(scopes_of(&["--scopes", r#"{"tables":["*"]}"#]), json!({ "tables": ["*"] }));
    }
}
