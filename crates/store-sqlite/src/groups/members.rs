//! Members and their heartbeats.

use rusqlite::{OptionalExtension, params};

use super::view;
use crate::error::{broken, now_ms};
use crate::sql;
use crate::writer::Writer;
use tidewire_store::error::StoreError;
use tidewire_store::groups::{GroupError, MEMBERS_MAX, MemberReport, Renewed, is_group_name};

/// Members are forgotten so long after their lease was over.
const FORGOTTEN_MS: i64 = 60_000;

/// Renews a member, or lets it join. Says also whether it was not among the living.
pub(super) fn renew(
    writer: &mut Writer,
    member: &MemberReport,
    asked_ms: i64,
    lease_ms: u64,
) -> Result<(Renewed, bool), GroupError> {
    if !is_group_name(&member.member) {
        let what = format!("{:?} cannot be the name of a member", member.member);
        return Err(GroupError::Invalid(what));
    }
    let failed = broken("renew a group's member");
    let transaction = writer.transaction()?;
    let group = view::whole(&transaction, &member.group).map_err(&failed)?;
    let group = group.ok_or(GroupError::NotFound)?;
    if let Some(pinned) = member.pinned.filter(|pinned| *pinned >= group.total) {
        let total = group.total;
        let what = format!("there is no partition {pinned}: the group has {total}, from 0 on");
        return Err(GroupError::Invalid(what));
    }
    let now_ms = now_ms();
    let known = transaction
        .prepare_cached(sql!("group_member_find"))
        .and_then(|mut find| {
            let of_row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            find.query_row((&member.group, &member.member), of_row).optional()
        })
        .map_err(&failed)?;
    // Who comes back after its lease was over has lost what it had, and joins anew; not who asked in time
    // and waited for the writer, while a handler's transaction was open.
    let lives = known.filter(|(_, until): &(i64, i64)| *until > asked_ms);
    let joins = known.is_none_or(|(_, until)| until <= now_ms);
    // Of its kind: the names of workers over HTTP are their own choice, and keep no member of the library out.
    let alike = group.members.iter().filter(|other| other.report.kind == member.kind).count();
    if joins && alike as u64 >= MEMBERS_MAX {
        return Err(GroupError::TooMany { limit: "members_max", max: MEMBERS_MAX });
    }
    let joined_at_ms = lives.map_or(now_ms, |(joined, _)| joined);
    let until_ms = now_ms.saturating_add(i64::try_from(lease_ms).unwrap_or(i64::MAX));
    let save = || -> rusqlite::Result<_> {
        transaction.prepare_cached(sql!("group_member_renew"))?.execute(params![
            member.group,
            member.member,
            member.kind.as_str(),
            member.pinned,
            joined_at_ms,
            until_ms,
            member.counts.get(),
        ])?;
        let mut sweep = transaction.prepare_cached(sql!("group_members_sweep"))?;
        sweep.execute((&member.group, now_ms - FORGOTTEN_MS))?;
        view::whole(&transaction, &member.group)
    };
    let group = save().map_err(&failed)?.ok_or(GroupError::NotFound)?;
    transaction.commit().map_err(&failed)?;
    Ok((Renewed { group, joined_at_ms }, joins))
}

/// A member leaves.
pub(super) fn remove(writer: &mut Writer, group: &str, member: &str) -> Result<(), StoreError> {
    let failed = broken("remove a group's member");
    let transaction = writer.transaction()?;
    transaction
        .prepare_cached(sql!("group_member_remove"))
        .and_then(|mut remove| remove.execute((group, member)))
        .map_err(&failed)?;
    transaction.commit().map_err(&failed)
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::SqliteStore;
    use crate::options::SqliteOptions;
    use tidewire_store::groups::{GroupSettings, Groups, MemberKind, Start};
    use tidewire_store::log::Log;

    #[tokio::test]
    async fn a_sign_of_life_that_waits_for_a_handler_is_in_time() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("it opens");
        let (partitions, filter, max_attempts, on_dead) = (None, None, None, None);
        let start = Start::Now;
        let wish = GroupSettings { partitions, filter, start, max_attempts, on_dead };
        store.put_group("g", &wish).await.expect("a group");
        let counts = RawValue::from_string("{}".to_owned()).expect("JSON");
        let (group, member) = ("g".to_owned(), "m".to_owned());
        let report =
            MemberReport { group, member, kind: MemberKind::Library, pinned: None, counts };
        let joined = store.renew_member(&report, 0).await.expect("joined").joined_at_ms;
        let late = move |writer: &mut Writer| renew(writer, &report, joined - 1, 0);
        let (renewed, was_gone) = store.exclusively(late).await.expect("renewed");
        assert_eq!((renewed.joined_at_ms, was_gone), (joined, true));
        store.close().await;
    }
}
