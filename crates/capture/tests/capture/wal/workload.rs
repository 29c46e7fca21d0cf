//! Random work: the same for the same seed.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

/// Tables of different shapes, and so many transactions on them.
pub(super) fn statements(seed: u64, transactions: usize) -> Vec<String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut statements: Vec<String> = [
        "CREATE TABLE accounts (id int PRIMARY KEY, balance numeric NOT NULL DEFAULT 0, note text)",
        "CREATE TABLE entries (account int REFERENCES accounts ON DELETE CASCADE, n int, data jsonb,
            at timestamptz DEFAULT '2024-01-01', PRIMARY KEY (account, n))",
        "CREATE TABLE bag (a int, b text)",
        "SELECT tidewire.watch('accounts', entity => 'account')",
        "SELECT tidewire.watch('entries')",
        "SELECT tidewire.watch('bag')",
    ]
    .map(ToOwned::to_owned)
    .to_vec();
    for _ in 0..transactions {
        statements.push(transaction(&mut rng));
    }
    statements
}

fn transaction(rng: &mut StdRng) -> String {
    let mut text = String::from("BEGIN;");
    if rng.random_bool(0.2) {
        text += &format!("SELECT tidewire.set_actor('u{}', 'h');", rng.random_range(0..3));
    }
    for _ in 0..rng.random_range(1..6) {
        let statement = statement(rng);
        text += &match rng.random_range(0..10) {
            0 => format!("SAVEPOINT s; {statement}; ROLLBACK TO s;"),
            1 => format!("SAVEPOINT s; {statement}; RELEASE s;"),
            _ => format!("{statement};"),
        };
    }
    text + if rng.random_bool(0.1) { "ROLLBACK" } else { "COMMIT" }
}

fn statement(rng: &mut StdRng) -> String {
    let id = rng.random_range(0..20);
    let (amount, text) = (rng.random_range(-999..999), random_text(rng));
    match rng.random_range(0..14) {
        0..=2 => format!(
            "INSERT INTO accounts VALUES ({id}, {amount}.{:02}, '{text}') ON CONFLICT (id)
             DO UPDATE SET balance = accounts.balance + excluded.balance, note = excluded.note",
            rng.random_range(0..100)
        ),
        3 => format!("UPDATE accounts SET balance = balance * 1.1 WHERE id % 3 = {}", id % 3),
        4 => format!("DELETE FROM accounts WHERE id = {id}"),
        5..=7 => format!(
            "INSERT INTO entries SELECT id, n, jsonb_build_object('t', '{text}', 'v', n * {amount})
             FROM accounts, generate_series(1, 3) AS n WHERE id = {id} ON CONFLICT DO NOTHING"
        ),
        8 => {
            let far = rng.random_range(1_000..1_000_000);
            format!("UPDATE entries SET n = n + {far} WHERE account = {id}")
        }
        9 => format!("UPDATE entries SET data = data || '{{\"z\": {amount}}}'"),
        10 => format!("INSERT INTO bag SELECT n % 2, '{text}' FROM generate_series(1, 4) AS n"),
        11 => format!("UPDATE bag SET a = a + 1 WHERE b = '{text}'"),
        12 => format!("SELECT tidewire.publish('doc-{}', '{{\"v\": {amount}}}')", id % 4),
        _ if rng.random_bool(0.2) => "TRUNCATE bag".to_owned(),
        _ => format!("DELETE FROM bag WHERE a = {}", id % 3),
    }
}

fn random_text(rng: &mut StdRng) -> &'static str {
    ["", "a", "zwei", "\"quoted\"", "back\\\\slash", "é😀", "line\nbreak", "null"]
        .choose(rng)
        .copied()
        .unwrap_or("a")
}
