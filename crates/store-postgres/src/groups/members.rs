//! Members of a group: rows with leases, which only advise how partitions are shared.

use deadpool_postgres::ClientWrapper;

use super::super::query::{execute, prepare, query_one, sql};
use super::step::StepResult;
use super::view;
use tidewire_store::groups::{GroupError, MEMBERS_MAX, MemberReport, Renewed, is_group_name};

/// Rows of members that died are kept for so long, so that who was slow finds its own.
const DEAD_KEPT_MS: i64 = 60_000;

/// The longest lease of a member.
const LEASE_MS_MAX: u64 = 600_000;

/// A member says that it lives.
pub(super) async fn renew(
    client: &ClientWrapper,
    member: &MemberReport,
    lease_ms: u64,
) -> StepResult<Renewed> {
    if !is_group_name(&member.member) {
        let text = "a member's name has 1 to 255 bytes, no slash and no control characters";
        return Err(GroupError::Invalid(text.to_owned()).into());
    }
    let pinned = member.pinned.map(i32::try_from).transpose();
    let pinned = pinned.map_err(|_| GroupError::NotFound)?;
    let lease_ms = i64::try_from(lease_ms.clamp(1, LEASE_MS_MAX)).unwrap_or(i64::MAX);
    let members_max = i64::try_from(MEMBERS_MAX).unwrap_or(i64::MAX);
    let [renew, sweep] = prepare(client, [sql!("member_renew"), sql!("members_sweep")]).await?;
    let (name, kind) = (&member.group, member.kind.as_str());
    let counts = member.counts.get();
    let renewal: [super::super::query::Param<'_>; 7] =
        [name, &member.member, &kind, &pinned, &lease_ms, &counts, &members_max];
    let (renewed, _, group) = futures_util::future::try_join3(
        client.query_opt(&renew, &renewal),
        client.execute(&sweep, &[name, &DEAD_KEPT_MS]),
        view::group(client, name),
    )
    .await?;
    let Some(group) = group else { return Err(GroupError::NotFound.into()) };
    let Some(renewed) = renewed else {
        if let Some(pinned) = member.pinned.filter(|pinned| *pinned >= group.total) {
            let last = group.total - 1;
            let text = format!("the group has the partitions 0 to {last}, and none with {pinned}");
            return Err(GroupError::Invalid(text).into());
        }
        return Err(GroupError::TooMany { limit: "members_max", max: MEMBERS_MAX }.into());
    };
    if renewed.try_get(1)? {
        query_one(client, sql!("group_notify"), &[name]).await?;
    }
    Ok(Renewed { group, joined_at_ms: renewed.try_get(0)? })
}

/// A member leaves, and the others hear of it.
pub(super) async fn remove(client: &ClientWrapper, group: &str, member: &str) -> StepResult<()> {
    if execute(client, sql!("member_remove"), &[&group, &member]).await? > 0 {
        query_one(client, sql!("group_notify"), &[&group]).await?;
    }
    Ok(())
}
