//! What is wrong with rules, told to the operator: at start, when the configuration is read again, and
//! when a table comes to be watched. Whoever a wrong rule concerns is refused; this says why.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use tidewire_query::{Refusal, RuleUse, TableName, read_as_condition};

use super::rules::Configured;
use crate::Hub;
use tidewire_access::auth::names::Written;
use tidewire_access::auth::scopes::{Scopes, is_no_rule};
use tidewire_access::options::TableRule;

/// How often rules are looked at when nothing says that a table has changed: a search path changes
/// without a word.
const ROUND: Duration = Duration::from_secs(60);
/// Stored keys whose rules are looked at. Those of others are when they are used.
const KEYS_MAX: usize = 1_000;

/// A rule, and where it is written.
struct Placed<'a> {
    place: String,
    table: &'a Written,
    rule: &'a str,
}

/// Looks at the rules whenever tables may have changed, until told to stop.
pub async fn keep(hub: Arc<Hub>, stop: CancellationToken) {
    loop {
        hub.look_at_rules().await;
        tokio::select! {
            () = stop.cancelled() => return,
            () = hub.access.names.doubted() => {}
            () = tokio::time::sleep(ROUND) => {}
        }
    }
}

/// What is wrong with rules, in words.
#[derive(Debug)]
pub struct WrongRules {
    /// With those of the configuration.
    pub configured: Vec<String>,
    /// With those of keys and tokens, and with what end users can read.
    pub others: Vec<String>,
}

impl Hub {
    /// Looks at all rules, and says what is wrong with them that was not said before.
    pub(crate) async fn look_at_rules(&self) {
        if self.rules.again.swap(false, Ordering::AcqRel) {
            self.rules.said.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        if let Err(error) = self.access.names.look(&self.store, Duration::ZERO).await {
            tracing::warn!(%error, "could not read the names of tables; rules are checked later");
            return;
        }
        self.note_rules_without_table();
        let WrongRules { configured, others } = self.wrong_rules().await;
        let found: Vec<String> = configured.into_iter().chain(others).collect();
        let mut said = self.rules.said.lock().unwrap_or_else(PoisonError::into_inner);
        for message in found.iter().filter(|message| !said.contains(*message)) {
            tracing::warn!("{message}");
        }
        *said = found.into_iter().collect::<HashSet<_>>();
    }

    /// What is wrong with rules as they are written by now. Those of the configuration take effect with the
    /// next start.
    pub async fn wrong_rules(&self) -> WrongRules {
        let written = Configured::all(&self.written_rules(), &self.access.names);
        let mut configured = self.wrong_in_configuration(&written).await;
        let same = |(new, old): (&Configured, &Configured)| {
            (&new.table.text, &new.read) == (&old.table.text, &old.read)
        };
        let started_with = &self.rules.configured;
        if written.len() != started_with.len() || !written.iter().zip(started_with).all(same) {
            let restart = "the rules of [tables] have changed: restart the server to apply them";
            configured.insert(0, restart.to_owned());
        }
        let mut others = self.wrong_in_keys().await;
        others.extend(self.unreadable_by_users(&written));
        WrongRules { configured, others }
    }

    /// The rules that the configuration has by now.
    fn written_rules(&self) -> BTreeMap<String, TableRule> {
        match self.rules.reread.load(Ordering::Acquire) {
            true => self.access.tunable().tables.clone(),
            false => self.options.tables.clone(),
        }
    }

    /// Notes which names in the configuration are no watched table's, for those who ask whether the node is
    /// ready.
    pub fn note_rules_without_table(&self) {
        let rules = self.rules.configured.iter().map(|rule| &rule.table);
        let lost = rules
            .filter(|table| !self.access.names.means_any(table))
            .map(|table| table.text.clone());
        let lost: Arc<[Box<str>]> = lost.collect();
        *self.rules.without_table.write().unwrap_or_else(PoisonError::into_inner) = lost;
    }

    async fn wrong_in_configuration(&self, rules: &[Configured]) -> Vec<String> {
        let mut found = Vec::new();
        for Configured { table, read, place } in rules {
            let place = format!("{place}, [tables.{}] read", table.text);
            let placed = Placed { place, table, rule: read };
            match self.access.names.means_any(table) {
                true => found.extend(self.wrong_with(&placed).await),
                false => {
                    let nearest = self.nearest(table);
                    found.push(format!(
                        "{}: no watched table is called {:?}{nearest}; the rule applies once there is one",
                        placed.place, table.text
                    ));
                    found.extend(self.is_no_condition(&placed));
                }
            }
        }
        found
    }

    /// Of stored keys, and of tokens that say nothing themselves.
    async fn wrong_in_keys(&self) -> Vec<String> {
        let mut written = Vec::new();
        match self.store.keys().await {
            Ok(keys) => {
                let good = keys.into_iter().filter(tidewire_store::KeyView::is_valid);
                written
                    .extend(good.map(|key| (format!("key {} ({})", key.id, key.name), key.scopes)));
            }
            Err(error) => tracing::warn!(%error, "could not check the rules of keys"),
        }
        written.truncate(KEYS_MAX);
        let of_tokens = self.options.auth.jwt.scopes.clone();
        written.extend(of_tokens.map(|scopes| ("jwt.scopes".to_owned(), scopes)));
        let mut found = Vec::new();
        for (place, scopes) in written {
            let Ok(scopes) = Scopes::parse(&scopes, &(), &self.access.names) else { continue };
            found.extend(self.wrong_in_scopes(&place, &scopes).await);
        }
        found
    }

    /// What is wrong with the rules of a credential, which are written at a place.
    pub async fn wrong_in_scopes(&self, place: &str, scopes: &Scopes) -> Vec<String> {
        let mut found = Vec::new();
        for (table, rule) in scopes.rules() {
            let what = if rule.is_some() { "rows" } else { "columns" };
            let place = format!("{place}, {what} of {:?}", table.text);
            if !self.access.names.means_any(table) {
                let nearest = self.nearest(table);
                found.push(format!(
                    "{place}: no watched table is called so{nearest}; it reads no table"
                ));
            } else if let Some(rule) = rule {
                found.extend(self.wrong_with(&Placed { place, table, rule }).await);
            }
        }
        found
    }

    /// Tables that end users would read by `jwt.scopes`, and do not because nothing says which rows.
    fn unreadable_by_users(&self, written: &[Configured]) -> Option<String> {
        let jwt = &self.options.auth.jwt;
        let scopes = jwt.scopes.as_deref().filter(|_| jwt.takes_tokens());
        let scopes = Scopes::parse(scopes?, &(), &self.access.names).ok()?;
        let is_hidden = |table: &str| {
            scopes.covers_table(table)
                && !scopes.is_admin()
                && !scopes.narrowing(table).says_rows
                && !written.iter().any(|rule| self.access.names.grants(&rule.table, table))
        };
        let tables = self.access.names.tables();
        let hidden: Vec<&str> =
            tables.iter().map(|table| &**table).filter(|it| is_hidden(it)).collect();
        let first = hidden.first()?;
        Some(format!(
            "jwt.scopes names tables that end users cannot read, because nothing says which rows: {}. Write \
             [tables.{first}] read = \"owner_id = auth.user_id()\", or read = \"true\" for all rows",
            hidden.join(", ")
        ))
    }

    fn nearest(&self, table: &Written) -> String {
        let nearest = self.access.names.nearest(table);
        nearest.map_or_else(String::new, |nearest| format!(" (the nearest is {nearest:?})"))
    }

    /// That a rule is no condition at all, whatever its table may be.
    fn is_no_condition(&self, placed: &Placed<'_>) -> Option<String> {
        let Placed { place, table, rule } = placed;
        let refusal = self.unreadable_rule(table, rule)?;
        let at = refusal.position.map_or_else(String::new, |at| format!(", character {at}"));
        Some(format!("{place}{at}: the rule cannot be kept: {}", refusal.message))
    }

    /// What keeps a rule from being read as a condition, if something does.
    pub fn unreadable_rule(&self, table: &Written, rule: &str) -> Option<Refusal> {
        let name = table
            .sql_name()
            .cloned()
            .unwrap_or_else(|| TableName { schema: None, name: table.text.clone() });
        read_as_condition(rule, &name, self.access.names.dialect()).err()
    }

    /// What is wrong with a rule, for each table that it is for.
    async fn wrong_with(&self, placed: &Placed<'_>) -> Vec<String> {
        let Placed { place, table, rule } = placed;
        let mut found = Vec::new();
        if is_no_rule(rule) {
            return found;
        }
        for (meant, name) in self.access.names.meant(table) {
            let told = match self.try_rule(&name, rule).await {
                Ok(RuleUse::Everywhere) => continue,
                Ok(RuleUse::LiveQueries) => format!(
                    "{place}: only live queries can keep this rule; whoever it concerns is refused the stream, \
                     subscriptions and entities of {meant:?}"
                ),
                Err(UncheckedRule::Later(error)) => {
                    tracing::debug!(%error, "could not check a rule");
                    continue;
                }
                Err(UncheckedRule::Wrong { message, position }) => {
                    let at = position.map_or_else(String::new, |at| format!(", character {at}"));
                    format!(
                        "{place}{at}: the rule for {meant:?} cannot be kept, and whoever it concerns is \
                         refused: {message}"
                    )
                }
            };
            found.push(told);
        }
        found
    }
}

/// Why it is not known that a rule can be kept.
#[derive(Debug)]
pub enum UncheckedRule {
    /// It cannot.
    Wrong { message: String, position: Option<usize> },
    /// The store could not say.
    Later(String),
}

/// Says in the log what is wrong with a rule that someone was refused for.
pub fn blame(table: &str, rule: &str, position: Option<usize>, reason: &str) {
    let message = "a row rule cannot be kept; nobody is shown rows by it";
    tracing::warn!(table, rule, position, reason, "{message}");
}
