//! A log of events of all sizes, for the tests of those who read it in pieces.
//!
//! What a row takes on disk and what its text takes are different numbers, and neither is always the
//! larger: so rows are of every kind, and the stores' own idea of a size is never used here.

use std::fmt::Write as _;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Map, Value, json};

use super::Opener;
use super::test_store::TestStore;
use tidewire_store::log::PageLimit;
use tidewire_store::offset::Position;
use tidewire_store::testing::commands::{append, append_json, create, create_json, fork, fork_at};

/// The stream of a table.
pub(super) const ORDERS: &str = "table/orders";
/// The kind of entity that its rows are.
pub(super) const CODE: &str = "order";
/// The host and the user of all changes.
pub(super) const HOST: &str = "h";
pub(super) const USER: &str = "u";
/// Entities that changes are about.
pub(super) const ENTITIES: u64 = 12;
/// Changes of rows in one transaction, at most.
pub(super) const TRANSACTION_ROWS_MAX: usize = 3;

/// What is in the log, by the word of those who put it there.
#[derive(Debug, Default)]
pub(super) struct History {
    /// All events.
    pub(super) tip: u64,
    /// Changes of rows.
    pub(super) rows: Vec<u64>,
    /// Texts in the stream `doc`, and messages in `json`.
    pub(super) texts: Vec<u64>,
    pub(super) messages: Vec<u64>,
    /// What streams that were forked show.
    pub(super) forks: Vec<(&'static str, Vec<u64>)>,
    /// The transactions of those, one for each.
    pub(super) transactions: Vec<u64>,
    /// Changes that are told of an entity, by position and number.
    pub(super) told: Vec<(u64, u64)>,
}

/// Builds one, from a seed.
pub(super) struct Builder<'a> {
    data: &'a dyn Opener,
    pub(super) store: TestStore,
    pub(super) rng: StdRng,
    history: History,
}

impl<'a> Builder<'a> {
    pub(super) async fn new(data: &'a dyn Opener, seed: u64) -> Builder<'a> {
        let store = TestStore::open(data).await;
        let rng = StdRng::seed_from_u64(seed);
        let mut builder = Builder { data, store, rng, history: History::default() };
        builder.store.create(create_json(ORDERS)).await;
        builder.store.create(create("doc")).await;
        builder.store.create(create_json("json")).await;
        builder.history.tip = builder.store.log_tip().await.number();
        builder
    }

    /// Puts so many changes of rows into the log, as if they had been captured.
    pub(super) async fn rows(&mut self, count: u64, image: fn(&mut StdRng, u64) -> Value) {
        let mut values = String::new();
        let mut ends_at = 0;
        for number in 0..count {
            let (at, id) = (self.history.tip + 1 + number, self.rng.random_range(0..ENTITIES));
            let [before, after] = [(); 2].map(|()| quoted(&image(&mut self.rng, id).to_string()));
            let (operation, before, after) = match self.rng.random_range(0..10) {
                0 => ("INSERT", "NULL".to_owned(), after),
                1 => ("DELETE", before, "NULL".to_owned()),
                _ => ("UPDATE", before, after),
            };
            // Some got a key that is too long for anyone to subscribe to: no entity is told of that.
            let (key, was, told) = match self.rng.random_range(0..8) {
                0 if operation == "UPDATE" => ("k".repeat(1_100), quoted(&id.to_string()), false),
                _ => (id.to_string(), "NULL".to_owned(), true),
            };
            let is_first = number == ends_at;
            if is_first {
                let more = self.rng.random_range(1..=TRANSACTION_ROWS_MAX as u64);
                ends_at = count.min(number + more);
            }
            let transaction = match self.history.transactions.last() {
                Some(last) if !is_first => *last,
                _ => at,
            };
            let is_last = number + 1 == ends_at;
            let comma = if number == 0 { "" } else { "," };
            write!(
                values,
                "{comma} ({at}, '{ORDERS}', {at}, '{HOST}', '{USER}', 'orders', '{operation}', '{CODE}',
                  '{key}', {was}, {before}, {after}, {transaction}, {is_last}, to_timestamp(1700000000))"
            )
            .expect("a string takes all");
            self.history.rows.push(at);
            self.history.transactions.push(transaction);
            if told {
                self.history.told.push((at, id));
            }
        }
        self.history.tip += count;
        let insert = format!(
            "INSERT INTO tidewire.log (c_offset, stream_id, append_id, host_id, user_id, table_name,
                 operation, entity_code, entity_id, entity_was, before_data, after_data, txid, tx_last,
                 created_at)
             VALUES {values}"
        );
        self.data.run_sql(&insert).await;
    }

    /// Appends a text, or some messages.
    pub(super) async fn documents(&mut self) {
        let length = size(&mut self.rng);
        let text = "x".repeat(length);
        if self.rng.random_bool(0.5) {
            self.history.texts.push(self.store.append(append("doc", &text)).await.number());
        } else {
            let message = format!("\"{text}\"");
            let messages = vec![message.as_str(); self.rng.random_range(1..4)];
            let last = self.store.append(append_json("json", &messages)).await.number();
            self.history.messages.extend(last + 1 - messages.len() as u64..=last);
        }
        self.history.tip = self.store.log_tip().await.number();
    }

    /// Forks the texts: at their end, in their middle, and one that has texts of its own.
    pub(super) async fn forks(&mut self) {
        let middle = self.history.texts[self.history.texts.len() / 2];
        let all = self.history.texts.clone();
        let half: Vec<u64> = all.iter().copied().filter(|at| *at <= middle).collect();
        self.store.create(fork("doc", "whole")).await;
        self.store.create(fork_at("doc", Position::new(middle), 0, "half")).await;
        self.store.create(fork_at("doc", Position::new(middle), 0, "own")).await;
        let mut own = half.clone();
        for _ in 0..10 {
            let text = "y".repeat(size(&mut self.rng));
            own.push(self.store.append(append("own", &text)).await.number());
        }
        self.store.create(fork("own", "grandchild")).await;
        let grandchild = own.clone();
        self.history.forks =
            vec![("whole", all), ("half", half), ("own", own), ("grandchild", grandchild)];
        self.history.tip = self.store.log_tip().await.number();
    }

    /// The history, and the store opened anew, which has nothing of it in memory.
    pub(super) async fn finish(self) -> (TestStore, History, StdRng) {
        let store = self.store.reopen(self.data).await;
        (store, self.history, self.rng)
    }

    /// Rows and documents of all kinds between each other.
    pub(super) async fn mixed(data: &'a dyn Opener, seed: u64) -> (TestStore, History, StdRng) {
        let mut builder = Builder::new(data, seed).await;
        for _ in 0..20 {
            let rows = builder.rng.random_range(1..=20);
            builder.rows(rows, any_image).await;
            for _ in 0..builder.rng.random_range(1..4) {
                builder.documents().await;
            }
        }
        builder.forks().await;
        builder.rows(5, any_image).await;
        builder.finish().await
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Mostly little, and sometimes much.
fn size(rng: &mut StdRng) -> usize {
    let most = [0, 10, 100, 1_000, 30_000][rng.random_range(0..5)];
    rng.random_range(0..=most)
}

/// Limits of every order of magnitude, so that a page is cut by either, or by none.
pub(super) fn random_limit(rng: &mut StdRng) -> PageLimit {
    let [events, bytes] = [(3, 1_000), (1, 200_000)].map(|(least, most)| {
        let (least, most) = (f64::from(least), f64::from(most));
        (least * (most / least).powf(rng.random_range(0.0..=1.0))).round()
    });
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the above")]
    PageLimit { events: events as usize, bytes: bytes as usize }
}

/// A row such as users have. As JSON on disk it is larger than as text.
pub(super) fn ordinary_image(rng: &mut StdRng, id: u64) -> Value {
    let user: u128 = rng.random();
    let user = format!("{user:032x}");
    let (a, b, c, d, e) = (&user[..8], &user[8..12], &user[12..16], &user[16..20], &user[20..]);
    json!({
        "id": id, "user_id": format!("{a}-{b}-{c}-{d}-{e}"), "status": "paid",
        "total": rng.random_range(0..1_000_000) / 4, "tags": ["new", "gift", "eu"],
        "created_at": "2024-05-01T10:00:00.123456+00:00",
        "updated_at": "2024-05-01T10:00:00.654321+00:00", "note": "leave it with the neighbours",
    })
}

/// A row of any kind.
pub(super) fn any_image(rng: &mut StdRng, id: u64) -> Value {
    match rng.random_range(0..6) {
        0 | 1 => ordinary_image(rng, id),
        // Numbers and short names: on disk several times the text.
        2 => {
            let columns = rng.random_range(1..60);
            Value::Object((0..columns).map(|n| (format!("c{n}"), json!(n % 10))).collect())
        }
        3 => json!({"id": id, "a": [], "b": [[], {}, null, true], "c": {"d": [1, 2, 3]}}),
        // On disk a small part of the text, where the database compresses it.
        4 => json!({"id": id, "note": "the same again; ".repeat(rng.random_range(0..1_000))}),
        _ => {
            let noise: String =
                (0..size(rng) / 4).map(|_| char::from(rng.random_range(b'a'..=b'z'))).collect();
            Value::Object(Map::from_iter([("noise".to_owned(), Value::String(noise))]))
        }
    }
}
