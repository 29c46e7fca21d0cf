//! `KILL LIVE QUERY '…'`: ends a live query, whichever node serves it. PROTOCOL.md, section 29.
//!
//! It stands where SQL does (`POST /v1/sql`), and is no SQL of the database's.

use axum::http::StatusCode;

use tidewire_store::{LiveQueryRow, SqlAnswer};

use crate::control::{self, ControlCommand};
use crate::node::Node;
use tidewire_access::auth::{Ability, Identity, audit};
use tidewire_access::problem::Problem;

/// The `live_id` of a `KILL LIVE QUERY`, if a text is one; a problem if it would be one.
pub(crate) fn meant(sql: &str) -> Option<Result<String, Problem>> {
    let rest = ["kill", "live", "query"].iter().try_fold(sql, |rest, word| after(rest, word))?;
    Some(literal(rest).ok_or_else(|| {
        Problem::bad_request(
            "sql_syntax",
            "KILL LIVE QUERY is followed by a live_id in single quotes, and by nothing else",
            "write KILL LIVE QUERY 'connection-query'; SELECT live_id FROM system.live_queries lists \
             them",
        )
    }))
}

/// What follows a word that a text begins with.
pub(crate) fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (first, rest) = text.trim_start().split_at_checked(word.len())?;
    let ends = rest.chars().next().is_none_or(|next| next.is_whitespace() || next == '\'');
    (ends && first.eq_ignore_ascii_case(word)).then_some(rest)
}

/// A string in single quotes, alone but for a semicolon.
fn literal(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches(';').trim_end();
    let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
    let whole = inner.replace("''", "\u{0}");
    (!whole.contains('\'') && !inner.is_empty()).then(|| whole.replace('\u{0}', "'"))
}

/// Ends a live query: an administrator any, others their own.
pub(crate) async fn kill(
    node: &Node,
    identity: &Identity,
    live_id: &str,
) -> Result<SqlAnswer, Problem> {
    let row = match node.hub.queries.registry.find(live_id) {
        Some(row) => Some(row),
        None => node.store.live_query(live_id).await?,
    };
    let Some(row) = row else {
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "no_such_live_query",
            format!("there is no live query {live_id}"),
            "SELECT live_id FROM system.live_queries lists those that there are",
        ));
    };
    if !may_end(identity, &row) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "the live query is another user's",
            "end your own, or let someone do it who may administer the server",
        ));
    }
    control::send(node, &ControlCommand::EndSubscription { live_id: row.live_id }).await?;
    audit::administered(identity, "kill_live_query", live_id);
    let offset = Some(node.hub.tail.position());
    Ok(SqlAnswer { row_count: 1, offset, ..SqlAnswer::default() })
}

fn may_end(identity: &Identity, row: &LiveQueryRow) -> bool {
    let own = identity.actor().user_id.is_some_and(|user| user == row.user_id);
    identity.scopes().can(Ability::Admin) || own && !row.user_id.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kill_is_meant() {
        for (sql, live_id) in [
            ("KILL LIVE QUERY 'c-a'", "c-a"),
            ("  kill\nlive query 'c-it''s' ; ", "c-it's"),
            ("KILL LIVE QUERY'c-a';", "c-a"),
        ] {
            let meant = meant(sql).expect("a kill").expect("a live_id");
            assert_eq!(meant, live_id);
        }
        for sql in ["SELECT 'kill live query'", "KILL QUERY 'a'", "killlive query 'a'", ""] {
            assert!(meant(sql).is_none(), "{sql}");
        }
        for sql in [
            "KILL LIVE QUERY",
            "KILL LIVE QUERY c-a",
            "KILL LIVE QUERY ''",
            "KILL LIVE QUERY 'a' 'b'",
            "KILL LIVE QUERY 'a'; DROP TABLE t",
        ] {
            assert!(meant(sql).expect("a kill").is_err(), "{sql}");
        }
    }
}
