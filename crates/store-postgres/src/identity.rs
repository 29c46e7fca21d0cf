//! Which database this is: what tells a server's history of writes from another's.
//!
//! A standby that is promoted gets a higher timeline; a cluster of its own has another system
//! identifier. Either may lack what the log had before, so that offsets would be given again. What is
//! found is compared with what is noted beside the log's epoch, by whoever gives offsets (`head.sql`)
//! and in every new session (see [`Fence`](super::fence::Fence)).

use std::borrow::Cow;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Row};

use super::error::broken;
use tidewire_store::error::StoreError;
use tidewire_store::offset::{Epoch, Position};

/// The expressions by which a server is asked, as they stand in the queries.
const ASK_TIMELINE: &str =
    "pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8)";
const ASK_SYSTEM: &str = "(SELECT system_identifier FROM pg_catalog.pg_control_system())";

/// What a role may ask the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Abilities {
    pub(crate) timeline: bool,
    pub(crate) system: bool,
}

impl Abilities {
    /// Tries both. A managed service may keep them from its users, and an engine that only speaks
    /// PostgreSQL's protocol may not have them.
    pub(crate) async fn of(client: &Client) -> Result<Abilities, StoreError> {
        let may = async |expression: &str| match client
            .query_one(&format!("SELECT {expression}"), &[])
            .await
        {
            Ok(_) => Ok(true),
            Err(error) if is_refused(&error) => Ok(false),
            Err(error) => Err(broken("see which database this is")(error)),
        };
        let found =
            Abilities { timeline: may(ASK_TIMELINE).await?, system: may(ASK_SYSTEM).await? };
        if !found.timeline {
            tracing::warn!("the server does not report its timeline; a failover may go unnoticed");
        }
        Ok(found)
    }

    /// The query without what may not be asked.
    pub(crate) fn fit(self, sql: &'static str) -> Cow<'static, str> {
        let mut fitted = Cow::Borrowed(sql);
        for (able, ask, instead) in
            [(self.timeline, ASK_TIMELINE, "NULL::text"), (self.system, ASK_SYSTEM, "NULL::bigint")]
        {
            if !able {
                fitted = fitted.replace(ask, instead).into();
            }
        }
        fitted
    }
}

fn is_refused(error: &Error) -> bool {
    let codes = [
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::FEATURE_NOT_SUPPORTED,
        SqlState::UNDEFINED_FUNCTION,
    ];
    error.code().is_some_and(|code| codes.contains(code))
}

/// What tells a server's history from another's. A part is none where it may not be asked, or where
/// nobody has noted it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) timeline: Option<String>,
    pub(crate) system: Option<i64>,
}

/// What comparing them gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As far as anyone can tell it is the same database.
    Same,
    /// The same, and something is found that nobody has noted.
    Unnoted,
    /// The same cluster, after a failover or a recovery.
    Promoted(String),
    /// Another cluster: a copy by dump, or by `pg_upgrade`.
    Elsewhere(String),
}

impl Identity {
    /// Compares this, which is noted, with what is found. What one of both does not know says nothing.
    pub(crate) fn verdict(&self, found: &Identity) -> Verdict {
        if let (Some(noted), Some(found)) = (self.system, found.system)
            && noted != found
        {
            // The server shows it as an unsigned number.
            let [noted, found] = [noted, found].map(i64::cast_unsigned);
            let why = format!("its system identifier is {found}, and {noted} is noted");
            return Verdict::Elsewhere(why);
        }
        if let (Some(noted), Some(found)) = (&self.timeline, &found.timeline)
            && noted != found
        {
            return Verdict::Promoted(format!("its timeline is {found}, and {noted} is noted"));
        }
        let unnoted = (self.system.is_none() && found.system.is_some())
            || (self.timeline.is_none() && found.timeline.is_some());
        if unnoted { Verdict::Unnoted } else { Verdict::Same }
    }
}

/// What stands beside the log's epoch, and what is found.
#[derive(Debug, Clone)]
pub(crate) struct IdentityCheck {
    pub(crate) tip: Position,
    pub(crate) epoch: i16,
    pub(crate) noted: Identity,
    pub(crate) found: Identity,
    /// Why nobody gives offsets.
    pub(crate) halted: Option<String>,
}

impl IdentityCheck {
    /// From a row that has the tip first, and `epoch` and what follows it from a column on.
    pub(crate) fn of_row(row: &Row, first: usize) -> Result<IdentityCheck, Error> {
        Ok(IdentityCheck {
            tip: Position::from_sql(row.try_get(0)?),
            epoch: row.try_get(first)?,
            noted: Identity { timeline: row.try_get(first + 1)?, system: row.try_get(first + 2)? },
            halted: row.try_get(first + 3)?,
            found: Identity { timeline: row.try_get(first + 4)?, system: row.try_get(first + 5)? },
        })
    }

    /// Whether what is found is not what is noted, of a log that is not halted.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let verdict = self.noted.verdict(&self.found);
        self.halted.is_none() && matches!(verdict, Verdict::Promoted(_) | Verdict::Elsewhere(_))
    }

    pub(crate) fn epoch(&self) -> Result<Epoch, StoreError> {
        epoch_of(self.epoch)
    }
}

/// A column's epoch.
pub(crate) fn epoch_of(number: i16) -> Result<Epoch, StoreError> {
    u16::try_from(number)
        .ok()
        .and_then(Epoch::new)
        .ok_or_else(|| StoreError::Refused(format!("the log's epoch {number} is out of range")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::sql;

    fn identity(timeline: Option<&str>, system: Option<i64>) -> Identity {
        Identity { timeline: timeline.map(ToOwned::to_owned), system }
    }

    #[test]
    fn only_what_both_know_can_differ() {
        let noted = identity(Some("00000001"), Some(7));
        for (found, verdict) in [
            (identity(Some("00000001"), Some(7)), Verdict::Same),
            (identity(Some("00000001"), None), Verdict::Same),
            (identity(None, None), Verdict::Same),
        ] {
            assert_eq!(noted.verdict(&found), verdict, "{found:?}");
        }
        let promoted = noted.verdict(&identity(Some("00000002"), Some(7)));
        assert!(matches!(promoted, Verdict::Promoted(_)), "{promoted:?}");
        // A cluster that pg_upgrade made begins at timeline 1 again.
        let elsewhere = noted.verdict(&identity(Some("00000001"), Some(-8)));
        let Verdict::Elsewhere(why) = elsewhere else { panic!("{elsewhere:?}") };
        assert!(why.contains("18446744073709551608"), "{why}");
    }

    #[test]
    fn what_nobody_has_noted_is_noted() {
        let found = identity(Some("00000001"), Some(7));
        assert_eq!(Identity::default().verdict(&found), Verdict::Unnoted);
        assert_eq!(identity(Some("00000001"), None).verdict(&found), Verdict::Unnoted);
        assert_eq!(Identity::default().verdict(&Identity::default()), Verdict::Same);
    }

    #[test]
    fn a_query_is_fitted_to_what_may_be_asked() {
        let sql = sql!("head");
        let able = Abilities { timeline: true, system: true };
        assert_eq!(able.fit(sql), sql);
        let blind = Abilities { timeline: false, system: false }.fit(sql);
        for asked in ["pg_walfile_name", "pg_control_system"] {
            assert!(sql.contains(asked) && !blind.contains(asked), "{blind}");
        }
    }
}
