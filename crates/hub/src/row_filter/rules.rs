//! Combines the configuration's rules and the caller's scopes: which rows and columns the caller may read.
//!
//! Whichever way a table is read (its stream, a subscription, a fork, entities, a live query), what is
//! seen of it comes from here ([`Hub::access`]). It fails closed:
//!
//! - a rule that is under the name of no watched table hides nothing, though it was to hide something:
//!   a credential that has one reads no table;
//! - an end user reads a table only where it is said which rows: by `[tables.NAME]` in the configuration,
//!   or by `rows` in the scopes of the token.
//!
//! Tables that rules read, to say whether a row is seen, are not asked about: what a rule reads is the
//! operator's business. Administrators see everything, and consumer groups do not come here.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tidewire_query::Access;
use tidewire_store::StoreError;

use super::{refusal, view};
use crate::Hub;
use tidewire_access::auth::Identity;
use tidewire_access::auth::names::{FRESH, TableNames, Written};
use tidewire_access::auth::scopes::is_no_rule;
use tidewire_access::options::TableRule;
use tidewire_access::problem::Problem;

/// By which it is counted how often the log says why a credential reads no table.
const WHY: &str = "why_rule_without_table";

/// The configuration's rules, and what is known to be wrong with rules.
#[derive(Debug)]
pub struct Rules {
    pub(super) configured: Vec<Configured>,
    /// Names in the configuration that are no watched table's.
    pub(super) without_table: RwLock<Arc<[Box<str>]>>,
    /// What was said in the log, so that it is said once.
    pub(super) said: Mutex<HashSet<String>>,
    /// Whether everything is to be said again.
    pub(super) again: AtomicBool,
    /// Whether the configuration was read again since the start.
    pub(super) reread: AtomicBool,
}

/// A rule of the configuration.
#[derive(Debug)]
pub(super) struct Configured {
    pub(super) table: Written,
    pub(super) read: Box<str>,
    pub(super) place: Box<str>,
}

impl Configured {
    pub(super) fn all(rules: &BTreeMap<String, TableRule>, names: &TableNames) -> Vec<Configured> {
        let configured = |(table, rule): (&String, &TableRule)| Configured {
            table: names.read(table),
            read: rule.read.as_str().into(),
            place: rule.place.as_str().into(),
        };
        rules.iter().map(configured).collect()
    }
}

impl Rules {
    pub fn new(rules: &BTreeMap<String, TableRule>, names: &TableNames) -> Rules {
        Rules {
            configured: Configured::all(rules, names),
            without_table: RwLock::new(Arc::default()),
            said: Mutex::default(),
            again: AtomicBool::new(false),
            reread: AtomicBool::new(false),
        }
    }

    /// The configuration was read again: what is wrong with rules is said again when they are looked at.
    pub fn say_again(&self) {
        self.reread.store(true, Ordering::Release);
        self.again.store(true, Ordering::Release);
    }

    /// Names in the configuration that are no watched table's, as far as is known.
    pub fn without_table(&self) -> Arc<[Box<str>]> {
        Arc::clone(&self.without_table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What must hold of a table's rows.
    fn of(&self, names: &TableNames, table: &str) -> Vec<Box<str>> {
        let of_table = self.configured.iter().filter(|rule| names.narrows(&rule.table, table));
        of_table.filter(|rule| !is_no_rule(&rule.read)).map(|rule| rule.read.clone()).collect()
    }

    /// Whether the configuration says which rows of a table are read, be it all.
    pub(super) fn says_rows(&self, names: &TableNames, table: &str) -> bool {
        self.configured.iter().any(|rule| names.grants(&rule.table, table))
    }
}

impl Hub {
    /// What someone may see of a table, by the name of its events, or why they may see nothing of it. That
    /// is the same whether there is such a table or not.
    pub async fn access(&self, identity: &Identity, table: &str) -> Result<Access, Problem> {
        self.look_for(identity, table).await?;
        let mut access = self.access_to_all_that_is_named(identity, table);
        if access.is_err() {
            // The table that a rule names may be watched since a moment ago.
            self.access.names.look(&self.store, FRESH).await?;
            access = self.access_to_all_that_is_named(identity, table);
        }
        if let Some(name) = identity.scopes().rule_without_table()
            && self.access.rates.may_write(WHY)
        {
            let (who, nearest) = (identity.label(), self.access.names.nearest(name));
            let (written, nearest) = (&*name.text, nearest.as_deref());
            tracing::warn!(
                who,
                written,
                nearest,
                "a rule is for no watched table: its holder reads no table"
            );
        }
        access
    }

    /// Has the names of tables read again, where they matter and one may be out of date.
    pub(crate) async fn look_for(
        &self,
        identity: &Identity,
        table: &str,
    ) -> Result<(), StoreError> {
        let scopes = identity.scopes();
        let has_rules = !self.rules.configured.is_empty() || scopes.rules().next().is_some();
        if has_rules && !scopes.is_admin() {
            self.access.names.look_for(&self.store, table).await?;
        }
        Ok(())
    }

    fn access_to_all_that_is_named(
        &self,
        identity: &Identity,
        table: &str,
    ) -> Result<Access, Problem> {
        match identity.scopes().rule_without_table() {
            Some(name) => Err(refusal::rule_without_table(&name.text)),
            None => self.access_as_known(identity, table),
        }
    }

    /// The same, with the names of tables as they are known, for those whose rules were looked at before.
    pub(crate) fn access_as_known(
        &self,
        identity: &Identity,
        table: &str,
    ) -> Result<Access, Problem> {
        let scopes = identity.scopes();
        if scopes.is_admin() {
            return Ok(view::access(identity, table, Vec::new()));
        }
        let is_said =
            || scopes.narrowing(table).says_rows || self.rules.says_rows(&self.access.names, table);
        if identity.is_end_user() && !is_said() {
            return Err(refusal::read_rule_missing(table));
        }
        Ok(view::access(identity, table, self.rules.of(&self.access.names, table)))
    }
}
