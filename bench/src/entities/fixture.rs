//! A store with many subscriptions in it, and a server on it.

use anyhow::{Context, Result};
use rusqlite::Connection;
use tidewire_client::Client;

use crate::Options;
use crate::postgres::Session;
use crate::raw::sqlite_file;
use crate::scale::Entities;
use crate::servers::{Kind, Server, Store};

/// What the entities are.
pub(crate) const CODE: &str = "project";

/// Each entity has so many subscribers, on average.
const SUBSCRIBERS: usize = 5;

/// The same numbering of users, connections and entities on both stores. Ids are UUIDs, as the functions
/// that are called by SQL have them.
const FILL_POSTGRES: &str = include_str!("fill_postgres.sql");
const FILL_SQLITE: &str = include_str!("fill_sqlite.sql");

/// How many entities there are.
pub(crate) fn entities(scale: &Entities) -> usize {
    (scale.users * scale.subscriptions / SUBSCRIBERS).max(1)
}

/// The id of a user or an entity, by its number.
pub(crate) fn uuid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// Makes the store, with the names of other systems where SQL is to use them, and fills it.
pub(crate) fn filled(options: &Options, kind: Kind, scale: &Entities) -> Result<Store> {
    let store = Server::start(kind, &options.installed)?.stop();
    let (users, each, all) = (scale.users, scale.subscriptions, entities(scale));
    match &store.database {
        Some(database) => {
            options.installed.migrate_compat(&database.url)?;
            let session = Session::connect(&database.url)?;
            let fill = [("{users}", users), ("{each}", each), ("{entities}", all)];
            let replace =
                |sql: String, (name, value): &(&str, usize)| sql.replace(name, &value.to_string());
            session.run(&fill.iter().fold(FILL_POSTGRES.to_owned(), replace))?;
            session.run("VACUUM ANALYZE tidewire.rxdb_subscription")?;
        }
        None => {
            let connection = Connection::open(sqlite_file(&store.data())?)?;
            let number = |value: usize| i64::try_from(value).context("a number of this size");
            let params = [number(users)?, number(each)?, number(all)?];
            connection.execute(FILL_SQLITE, params)?;
        }
    }
    Ok(store)
}

/// A client of the server's own API.
pub(crate) fn client(server: &Server) -> Result<Client> {
    Ok(Client::new(&format!("http://{}", server.address()), None)?)
}
