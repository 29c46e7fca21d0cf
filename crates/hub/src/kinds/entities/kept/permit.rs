//! Who may subscribe to entities.
//!
//! An entity's changes come from the watched tables that carry its code, and from
//! `tidewire.invalidate`. Whoever may read all of those tables may be told; where no table carries the
//! code, whoever may read the stream `entity/CODE`. A rule for some rows or columns cannot be applied
//! to the word that something changed, so who has one is refused.
//!
//! Tables come to carry a code, and cease to. So each change is checked again by the stream it comes
//! from ([`Hub::may_hear_from`]): what is asked at the beginning is for a clear answer, and to refuse codes that
//! nobody watches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use tidewire_query::Access;
use tidewire_store::{ENTITY_PREFIX, StoreError, TABLE_PREFIX, WatchView};

use crate::Hub;
use tidewire_access::auth::permit::cannot_tell_apart;
use tidewire_access::auth::{Act, Identity, audit};
use tidewire_access::problem::Problem;

/// How long it is remembered which tables carry which code: a page may ask for many codes at once.
const FRESH: Duration = Duration::from_secs(1);

/// Tables and the codes they carry.
type EntityTables = Arc<[(String, String)]>;

/// What was read last, and when that began. Held while it is read again, so that many who come at once
/// ask the store once.
#[derive(Debug, Default)]
pub(super) struct CachedEntityTables(Mutex<Option<(Instant, EntityTables)>>);

impl Hub {
    /// The watched tables that carry a code, as they were at some moment or later.
    async fn carriers(&self, since: Option<Instant>) -> Result<EntityTables, StoreError> {
        let mut known = self.entities.known.0.lock().await;
        if let Some((read, carriers)) = &*known
            && since.is_none_or(|since| *read >= since)
        {
            return Ok(Arc::clone(carriers));
        }
        let now = Instant::now();
        let watches = self.store.watches().await?;
        let carrier = |watch: WatchView| Some((watch.table, watch.entity_code?));
        let carriers: EntityTables = watches.into_iter().filter_map(carrier).collect();
        *known = Some((now, Arc::clone(&carriers)));
        Ok(carriers)
    }

    /// The streams that a code's changes come from.
    pub(crate) async fn entity_sources(&self, code: &str) -> Result<Vec<String>, StoreError> {
        let carriers = self.carriers(Instant::now().checked_sub(FRESH)).await?;
        let tables = carriers.iter().filter(|(_, carried)| carried == code);
        let tables = tables.map(|(table, _)| format!("{TABLE_PREFIX}{table}"));
        Ok(tables.chain([format!("{ENTITY_PREFIX}{code}")]).collect())
    }

    /// Checks that someone may be told of entities of a code.
    pub async fn permit_entity(&self, identity: &Identity, code: &str) -> Result<(), Problem> {
        let now = Instant::now();
        let act = Act::ReadEntity(code);
        let carriers = self.carriers(now.checked_sub(FRESH)).await?;
        let mut allowed = self.may(identity, act, &carriers).await;
        if allowed.is_err() {
            // A table may have come to carry the code, or ceased to, a moment ago.
            allowed = self.may(identity, act, &self.carriers(Some(now)).await?).await;
        }
        allowed
            .inspect_err(|problem| audit::turned_away(&self.access, Some(identity), act, problem))
    }

    async fn may(
        &self,
        identity: &Identity,
        act: Act<'_>,
        carriers: &[(String, String)],
    ) -> Result<(), Problem> {
        let of_code = |(_, carried): &&(String, String)| carried == act.subject();
        let mut tables = carriers.iter().filter(of_code).peekable();
        if tables.peek().is_none() {
            return identity.may(act);
        }
        for (table, _) in tables {
            identity.may_read_of(table, act)?;
            sees_all(&self.access(identity, table).await?, act)?;
        }
        Ok(())
    }

    /// Whether someone who was permitted may be told of what comes from a stream.
    pub(crate) fn may_hear_from(&self, identity: &Identity, stream: &str) -> bool {
        let Some(table) = stream.strip_prefix(TABLE_PREFIX) else { return true };
        let act = Act::Read(stream);
        let allowed = identity.may_read_of(table, act);
        let access = allowed.and_then(|()| self.access_as_known(identity, table));
        access.is_ok_and(|access| sees_all(&access, act).is_ok())
    }
}

/// A rule cannot be applied to the word that something changed. Whose tenant's it is, is said with it.
fn sees_all(access: &Access, act: Act<'_>) -> Result<(), Problem> {
    match access.columns.is_none() && access.rules.is_empty() {
        true => Ok(()),
        false => Err(cannot_tell_apart(act)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use tidewire_access::auth::Who;
    use tidewire_access::auth::scopes::Scopes;
    use tidewire_access::options::{Access as AccessOption, Options};
    use tidewire_store::memory::MemoryStore;

    /// A table may come to carry a code that someone follows already: of one that they may not read they are told
    /// nothing.
    #[tokio::test]
    async fn nobody_hears_from_a_table_that_they_may_not_read() {
        let options = Options::new(AccessOption::OpenOnLoopback);
        let (hub, _unstarted) = testing::hub(options, MemoryStore::fresh()).await;
        let identity = |who, scopes: &str| {
            Identity::new(who, Scopes::parse(scopes, &(), &hub.access.names).expect("scopes"), None)
        };
        let user = || Who::User { name: "ann".into(), host: None };
        for (who, scopes, hears) in [
            (Who::Key(1), r#"{"tables": ["*"]}"#, true),
            (Who::Key(1), r#"{"tables": ["items"]}"#, false),
            (Who::Key(1), r#"{"tables": ["*"], "rows": {"orders": "id = 1"}}"#, false),
            // Nobody has said which rows end users read.
            (user(), r#"{"tables": ["*"]}"#, false),
            (user(), r#"{"tables": ["*"], "rows": {"orders": "true"}}"#, true),
        ] {
            let identity = identity(who, scopes);
            assert_eq!(hub.may_hear_from(&identity, "table/orders"), hears, "{scopes}");
            assert!(hub.may_hear_from(&identity, "entity/order"));
        }
    }
}
