//! The query engine's updates for shards, and the messages that clients receive of them.
//!
//! What a change says is the same for all who follow its query but for the name that they have for it:
//! so it is written once, and each shard makes its frames once for each name and dialect.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use tidewire_query::{Delta, EndReason, PlanName, QueryId, Recipients, RowText};
use tidewire_store::{Offset, Position};

use super::compile::Compiled;
use crate::frames::{self, Dialect};
use crate::messages::{self, Json};
use tidewire_wire::websocket::deflate::Deflater;

/// Bytes of rows after which a message ends and another begins.
pub(crate) const PART_BYTES: usize = 64 << 10;

/// What one turn of the query engine brought.
#[derive(Debug)]
pub struct QueryUpdates {
    /// All queries have everything up to here that is settled.
    pub position: Position,
    pub news: Vec<Arc<News>>,
}

/// Something to tell.
#[derive(Debug)]
pub enum News {
    /// All rows of a result.
    Begin {
        to: Recipients,
        compiled: Arc<Compiled>,
        plan: PlanName,
        rows: Arc<[RowText]>,
        at: Option<Position>,
        reset: bool,
    },
    /// Someone goes on from where they were.
    Resumed {
        to: Recipients,
        compiled: Arc<Compiled>,
        plan: PlanName,
        from: Position,
    },
    Change {
        to: Recipients,
        change: Change,
    },
    /// What was told without an offset has one.
    Settled {
        to: Recipients,
        at: Position,
    },
    /// Whether something is yet to be told of what happened.
    Behind {
        query: QueryId,
        behind: bool,
    },
    End {
        to: Recipients,
        reason: EndReason,
    },
}

/// A change of a result, written.
#[derive(Debug)]
pub struct Change {
    pub at: Option<Position>,
    pub rows: usize,
    /// When it happened, by the store's clock.
    pub created_at_ms: i64,
    /// How it was found.
    pub plan: PlanName,
    /// What each message says after the name.
    parts: Vec<String>,
}

/// What happened to a result, as messages call it.
#[derive(Debug, Clone, Copy)]
enum RowOperation {
    Delete,
    Update,
    Insert,
}

/// One row of a message.
struct RowUpdate<'a> {
    row: &'a RowText,
    old: Option<&'a RowText>,
    from: Option<u32>,
    at: Option<u32>,
}

impl Change {
    pub fn new(
        delta: &Delta,
        at: Option<(Position, Offset)>,
        txid: Option<i64>,
        (created_at_ms, plan): (i64, PlanName),
    ) -> Change {
        let offset = at.map(|(_, offset)| offset);
        let parts = with_steps(delta, |changes| {
            let count = changes.len();
            let numbered = changes.into_iter().enumerate();
            let whole = |(part, change)| messages::Change {
                offset,
                part,
                more: part + 1 < count,
                txid,
                ..change
            };
            numbered.map(|numbered| whole(numbered).rest()).collect()
        });
        Change {
            at: at.map(|(position, _)| position),
            rows: delta.len(),
            created_at_ms,
            plan,
            parts,
        }
    }

    /// Of what its messages say after the name.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(String::len).sum()
    }

    /// Its messages for subscriptions of this name.
    pub fn encode(
        &self,
        dialect: Dialect,
        query_id: &str,
        deflater: &mut Option<Deflater>,
    ) -> Bytes {
        let mut out = BytesMut::new();
        for part in &self.parts {
            let message = messages::Change::named(query_id, part);
            frames::put(&mut out, dialect, message.as_bytes(), None, deflater);
        }
        out.freeze()
    }
}

/// What happened, as messages, in the order in which it is to be done. Rows that go are told from the last to
/// the first, and rows that come from the first to the last, so that the places of a part hold when the
/// parts before it are done. Rows that move are told together: their places are of all at once.
fn with_steps<T>(delta: &Delta, then: impl FnOnce(Vec<messages::Change<'_>>) -> T) -> T {
    let places = delta.places.as_ref();
    let place = |of: Option<&Vec<u32>>, index: usize| of.and_then(|all| all.get(index)).copied();
    let mut deleted: Vec<RowUpdate<'_>> = (0..delta.deleted.len())
        .map(|index| RowUpdate {
            row: &delta.deleted[index],
            old: None,
            from: place(places.map(|places| &places.deleted), index),
            at: None,
        })
        .collect();
    deleted.sort_by_key(|told| std::cmp::Reverse(told.from));
    let moves = places.map(|places| &places.updated);
    let updated: Vec<RowUpdate<'_>> = (0..delta.updated.len())
        .map(|index| {
            let (old, row) = &delta.updated[index];
            let moved = moves.and_then(|moves| moves.get(index));
            let (from, at) = (moved.map(|moved| moved.0), moved.map(|moved| moved.1));
            RowUpdate { row, old: Some(old), from, at }
        })
        .collect();
    let mut inserted: Vec<RowUpdate<'_>> = (0..delta.inserted.len())
        .map(|index| RowUpdate {
            row: &delta.inserted[index],
            old: None,
            from: None,
            at: place(places.map(|places| &places.inserted), index),
        })
        .collect();
    inserted.sort_by_key(|told| told.at);
    let whole = if places.is_some() { usize::MAX } else { PART_BYTES };
    let mut changes = Vec::new();
    cut(RowOperation::Delete, &deleted, PART_BYTES, &mut changes);
    cut(RowOperation::Update, &updated, whole, &mut changes);
    cut(RowOperation::Insert, &inserted, PART_BYTES, &mut changes);
    then(changes)
}

/// Cuts the rows of a step into messages of so many bytes.
fn cut<'a>(
    step: RowOperation,
    rows: &[RowUpdate<'a>],
    bytes_max: usize,
    changes: &mut Vec<messages::Change<'a>>,
) {
    let bytes = |told: &RowUpdate<'_>| told.row.len() + told.old.map_or(0, |old| old.len());
    let mut rest = rows;
    while !rest.is_empty() {
        let mut total = 0;
        let fits = rest.iter().take_while(|told| {
            let first = total == 0;
            total += bytes(told) + 1;
            first || total <= bytes_max
        });
        let count = fits.count();
        let (now, later) = rest.split_at(count);
        changes.push(change_of(step, now));
        rest = later;
    }
}

/// A message about some rows, which does not say yet where it stands.
fn change_of<'a>(step: RowOperation, rows: &[RowUpdate<'a>]) -> messages::Change<'a> {
    messages::Change {
        query_id: None,
        change_type: match step {
            RowOperation::Delete => "DELETE",
            RowOperation::Update => "UPDATE",
            RowOperation::Insert => "INSERT",
        },
        rows: rows.iter().map(|told| Json::from(&**told.row)).collect(),
        old_rows: matches!(step, RowOperation::Update).then(|| {
            rows.iter().filter_map(|told| told.old).map(|old| Json::from(&**old)).collect()
        }),
        from: rows.iter().filter_map(|told| told.from).collect(),
        at: rows.iter().filter_map(|told| told.at).collect(),
        offset: None,
        part: 0,
        more: false,
        txid: None,
    }
}

/// As many rows from some place on as go into one message, and how many that are.
pub fn piece(rows: &[RowText]) -> (String, usize) {
    let mut out = String::from("[");
    let mut count = 0;
    for row in rows {
        if count > 0 {
            if out.len() + row.len() > PART_BYTES {
                break;
            }
            out.push(',');
        }
        out.push_str(row);
        count += 1;
    }
    out.push(']');
    (out, count)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use tidewire_query::Places;

    use super::*;

    fn messages(delta: &Delta) -> Vec<Value> {
        let change = Change::new(delta, None, Some(7), (0, PlanName::Filter));
        let message = |part: &String| messages::Change::named("q", part);
        change.parts.iter().map(|p| serde_json::from_str(&message(p)).expect("JSON")).collect()
    }

    #[test]
    fn a_transaction_is_told_in_parts_that_say_whether_there_are_more() {
        let large: RowText = format!("{{\"x\":\"{}\"}}", "x".repeat(PART_BYTES / 2)).into();
        let delta = Delta {
            deleted: vec![r#"{"id":1}"#.into()],
            inserted: vec![Arc::clone(&large), Arc::clone(&large), large],
            ..Delta::default()
        };
        let told = messages(&delta);
        let kinds: Vec<_> = told.iter().map(|part| part["change_type"].as_str()).collect();
        assert_eq!(kinds, [Some("DELETE"), Some("INSERT"), Some("INSERT"), Some("INSERT")]);
        for (number, part) in told.iter().enumerate() {
            assert_eq!((&part["part"], &part["more"]), (&number.into(), &(number < 3).into()));
            assert_eq!((&part["offset"], &part["txid"]), (&Value::Null, &7.into()));
        }
    }

    #[test]
    fn rows_go_from_the_last_and_come_from_the_first() {
        let row = |id: u32| -> RowText { format!("{{\"id\":{id}}}").into() };
        let delta = Delta {
            deleted: vec![row(1), row(2)],
            updated: vec![(row(3), row(4))],
            inserted: vec![row(6), row(5)],
            places: Some(Places {
                deleted: vec![0, 4],
                updated: vec![(2, 1)],
                inserted: vec![9, 3],
            }),
        };
        let told = messages(&delta);
        assert_eq!(told[0]["from"], serde_json::json!([4, 0]));
        assert_eq!(told[0]["rows"], serde_json::json!([{"id": 2}, {"id": 1}]));
        assert_eq!(
            (&told[1]["from"], &told[1]["at"]),
            (&serde_json::json!([2]), &serde_json::json!([1]))
        );
        assert_eq!(told[1]["old_rows"], serde_json::json!([{"id": 3}]));
        assert_eq!(told[2]["at"], serde_json::json!([3, 9]));
        assert_eq!(told[2]["rows"], serde_json::json!([{"id": 5}, {"id": 6}]));
    }

    #[test]
    fn a_piece_has_one_row_at_least() {
        let rows: Vec<RowText> = vec!["x".repeat(PART_BYTES + 1).into(), "1".into(), "2".into()];
        assert_eq!(piece(&rows).1, 1);
        assert_eq!(piece(&rows[1..]), ("[1,2]".to_owned(), 2));
        assert_eq!(piece(&[]), ("[]".to_owned(), 0));
    }
}
