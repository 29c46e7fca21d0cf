//! Scopes: what a key or a token lets its holder do.
//!
//! ```json
//! {"tables": ["orders"], "streams": ["doc/*"], "append": ["doc/mine-*"],
//!  "columns": {"orders": ["id", "total"]}, "rows": {"orders": "region = 'eu'"},
//!  "groups": ["billing-*"], "can": ["read", "append"], "host": "acme", "hosts": ["acme", ""]}
//! ```
//!
//! All members but `tables` may be missing, and then give nothing; `can` is then `["read"]`, so that
//! `{"tables": ["*"]}` alone means to read all tables. A member that is not known is refused: a typo
//! must not give more than was meant.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use tidewire_store::Reach;

use super::names::{TableNames, Written};
use super::pattern::{Pattern, TablePattern};

/// Something that a scope can allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ability {
    /// To read, subscribe and follow.
    Read,
    /// To make streams, append to them and close them.
    Append,
    /// To remove streams.
    Delete,
    /// To run SQL as the server's database role, past all row rules.
    Sql,
    /// To work for consumer groups, past all row rules and tenants.
    Consume,
    /// To see how the server is doing: metrics, nodes, statistics.
    Observe,
    /// Everything, and to say what others can.
    Admin,
}

/// As it is written, in a key or a token.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopesJson {
    #[serde(default)]
    tables: Vec<String>,
    #[serde(default)]
    streams: Vec<String>,
    append: Option<Vec<String>>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    columns: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    rows: BTreeMap<String, String>,
    can: Option<Vec<Ability>>,
    host: Option<String>,
    hosts: Option<Vec<String>>,
}

/// Patterns of one list.
const PATTERNS_MAX: usize = 100;
/// Tables with columns or rows of their own.
const TABLES_MAX: usize = 1_000;
/// Bytes of a tenant's name.
const HOST_BYTES_MAX: usize = 256;

/// What someone may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes {
    can: Vec<Ability>,
    tables: Vec<TablePattern>,
    streams: Vec<Pattern>,
    /// Where to append, if not to all of `streams`.
    append: Option<Vec<Pattern>>,
    /// Consumer groups to work for.
    groups: Vec<Pattern>,
    /// Of tables of which not all columns may be seen, those that may.
    columns: Vec<(Written, Vec<Box<str>>)>,
    /// Of tables of which not all rows may be seen, what holds of those that may.
    rows: Vec<(Written, Box<str>)>,
    host: Option<String>,
    reach: Reach,
    /// What the names of tables mean.
    names: Option<TableNames>,
}

/// What may be seen of a table, if not all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableRestriction {
    pub columns: Option<Vec<Box<str>>>,
    /// Predicates, as they were written.
    pub rows: Vec<Box<str>>,
    /// Whether the scopes themselves say which rows, be it all.
    pub says_rows: bool,
}

/// Whether a rule lets every row pass, and so is none.
pub fn is_no_rule(rule: &str) -> bool {
    let mut rule = rule.trim();
    while let Some(inner) = rule.strip_prefix('(').and_then(|rule| rule.strip_suffix(')')) {
        rule = inner.trim();
    }
    rule.eq_ignore_ascii_case("true")
}

/// Whose scopes they are: what the names in a pattern's braces stand for.
pub trait Holder {
    /// The value of a name.
    fn own(&self, name: &str) -> Option<String>;
    /// The tenant, if the credential itself names it.
    fn host(&self) -> Option<String>;
}

/// A holder of a key, who is nobody in particular.
impl Holder for () {
    fn own(&self, _: &str) -> Option<String> {
        None
    }

    fn host(&self) -> Option<String> {
        None
    }
}

impl Scopes {
    /// Those of whom nothing is refused.
    pub(crate) fn unlimited() -> Scopes {
        Scopes { can: vec![Ability::Admin], ..Scopes::none() }
    }

    /// Those of whom everything is.
    pub fn none() -> Scopes {
        Scopes {
            can: Vec::new(),
            tables: Vec::new(),
            streams: Vec::new(),
            append: None,
            groups: Vec::new(),
            columns: Vec::new(),
            rows: Vec::new(),
            host: None,
            reach: Reach::All,
            names: None,
        }
    }

    /// Reads scopes as they are stored or claimed, with tables' names as a database has them. The error
    /// says what is wrong with them.
    pub fn parse(text: &str, holder: &impl Holder, names: &TableNames) -> Result<Scopes, String> {
        let document: ScopesJson =
            serde_json::from_str(text).map_err(|error| format!("the scopes are wrong: {error}"))?;
        if document.columns.len() > TABLES_MAX || document.rows.len() > TABLES_MAX {
            return Err(format!("at most {TABLES_MAX} tables have columns or rows of their own"));
        }
        let host = match (holder.host(), document.host) {
            (Some(host), Some(other)) if host != other => {
                return Err("the scopes name another host than the token does".to_owned());
            }
            (host, other) => host.or(other),
        };
        let hosts = host.iter().chain(document.hosts.iter().flatten());
        if hosts.clone().any(|host| host.len() > HOST_BYTES_MAX || host.contains(char::is_control))
        {
            return Err(format!("a host has at most {HOST_BYTES_MAX} bytes, all printable"));
        }
        let own = |name: &str| match name {
            "host_id" => host.clone(),
            name => holder.own(name),
        };
        let patterns = |texts: &[String]| all(texts, |text| Pattern::parse(text, own));
        let table = |text: &str| TablePattern::parse(text, own, names);
        let columns = |(table, columns): (String, Vec<String>)| {
            (names.read(&table), columns.into_iter().map(Into::into).collect())
        };
        let rows = |(table, rule): (String, String)| (names.read(&table), rule.into());
        Ok(Scopes {
            can: document.can.unwrap_or_else(|| vec![Ability::Read]),
            tables: all(&document.tables, table)?,
            streams: patterns(&document.streams)?,
            append: document.append.as_deref().map(patterns).transpose()?,
            groups: patterns(&document.groups)?,
            columns: document.columns.into_iter().map(columns).collect(),
            rows: document.rows.into_iter().map(rows).collect(),
            reach: reach(host.as_deref(), document.hosts),
            host,
            names: Some(names.clone()),
        })
    }

    /// Whether they allow this at all.
    pub fn can(&self, ability: Ability) -> bool {
        self.can.contains(&ability) || self.can.contains(&Ability::Admin)
    }

    /// Whether they allow this of a stream.
    pub(crate) fn covers_stream(&self, ability: Ability, name: &str) -> bool {
        if self.can.contains(&Ability::Admin) {
            return true;
        }
        let appends = ability == Ability::Append;
        self.can(ability)
            && any(&self.streams, name)
            && (!appends || self.append.as_deref().is_none_or(|append| any(append, name)))
    }

    /// Whether they allow to read a table, in some part at least.
    pub fn covers_table(&self, table: &str) -> bool {
        let Some(names) = self.names.as_ref().filter(|_| !self.is_admin()) else {
            return self.is_admin();
        };
        self.can(Ability::Read) && self.tables.iter().any(|pattern| pattern.matches(table, names))
    }

    /// Whether they allow to work for a consumer group.
    pub(crate) fn covers_group(&self, group: &str) -> bool {
        self.is_admin() || (self.can(Ability::Consume) && any(&self.groups, group))
    }

    /// What of a table may be seen, if not all of it. With several rules for it, all hold.
    pub fn narrowing(&self, table: &str) -> TableRestriction {
        let mut narrowing = TableRestriction::default();
        let Some(names) = self.names.as_ref().filter(|_| !self.is_admin()) else {
            return narrowing;
        };
        for (_, columns) in self.columns.iter().filter(|(name, _)| names.narrows(name, table)) {
            match &mut narrowing.columns {
                None => narrowing.columns = Some(columns.clone()),
                Some(seen) => seen.retain(|column| columns.contains(column)),
            }
        }
        for (name, rule) in self.rows.iter().filter(|(name, _)| names.narrows(name, table)) {
            narrowing.says_rows |= names.grants(name, table);
            if !is_no_rule(rule) {
                narrowing.rows.push(rule.clone());
            }
        }
        narrowing
    }

    /// The rules for tables, by the names that they are under: of rows, and of columns without a text.
    pub fn rules(&self) -> impl Iterator<Item = (&Written, Option<&str>)> {
        let columns = self.columns.iter().map(|(name, _)| (name, None));
        let rows = self.rows.iter().map(|(name, rule)| (name, Some(&**rule)));
        rows.chain(columns).filter(|_| !self.is_admin())
    }

    /// A name that a rule is under, and that is no watched table's. What it was to hide is not known.
    pub fn rule_without_table(&self) -> Option<&Written> {
        let names = self.names.as_ref()?;
        self.rules().map(|(name, _)| name).find(|name| !names.means_any(name))
    }

    /// Whether they allow everything.
    pub fn is_admin(&self) -> bool {
        self.can.contains(&Ability::Admin)
    }

    /// Whether they allow to read all streams of a pattern of the streams protocol. Streams of tables
    /// are among those of a pattern, and not among those of the scopes.
    pub(crate) fn covers_pattern(&self, pattern: &str) -> bool {
        let admin = self.can.contains(&Ability::Admin);
        let first = pattern.split('/').find(|segment| !segment.is_empty()).unwrap_or_default();
        let without_tables = first != "table" && !first.contains('*');
        let read = self.can(Ability::Read) && self.streams.iter().any(|own| own.covers(pattern));
        admin || (read && without_tables)
    }

    /// The tenant.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Which tenants' streams.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }
}

fn any(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name))
}

fn all<P>(
    texts: &[String],
    read: impl Fn(&str) -> Result<Option<P>, String>,
) -> Result<Vec<P>, String> {
    if texts.len() > PATTERNS_MAX {
        return Err(format!("a list has at most {PATTERNS_MAX} patterns"));
    }
    texts.iter().filter_map(|text| read(text).transpose()).collect()
}

/// Whose streams can be reached: the tenant's own, unless the scopes say otherwise. `"*"` is
/// everyone's, `""` those of no tenant.
fn reach(host: Option<&str>, hosts: Option<Vec<String>>) -> Reach {
    match (host, hosts) {
        (None, None) => Reach::All,
        (_, Some(hosts)) if hosts.iter().any(|host| host == "*") => Reach::All,
        (host, hosts) => {
            let mut hosts = hosts.unwrap_or_default();
            // What someone without a tenant makes is of none, and they must find it again.
            let shared = host.is_none() || hosts.iter().any(String::is_empty);
            hosts.retain(|host| !host.is_empty());
            hosts.extend(host.map(ToOwned::to_owned));
            Reach::Of { hosts: Arc::from(hosts), shared }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(text: &str) -> Scopes {
        Scopes::parse(text, &(), &TableNames::none()).expect("well formed")
    }

    #[test]
    fn tables_alone_mean_to_read_them() {
        let scopes = scopes(r#"{"tables": ["*"]}"#);
        assert!(scopes.covers_table("orders"));
        assert!(!scopes.covers_stream(Ability::Read, "doc/1"));
        assert!(!scopes.can(Ability::Append) && !scopes.can(Ability::Admin));
        assert_eq!(*scopes.reach(), Reach::All);
    }

    #[test]
    fn streams_are_appended_to_only_where_that_is_said() {
        let scopes = scopes(
            r#"{"tables": [], "streams": ["doc/*"], "append": ["doc/my-*"], "can": ["read", "append"]}"#,
        );
        assert!(scopes.covers_stream(Ability::Read, "doc/1"));
        assert!(!scopes.covers_stream(Ability::Append, "doc/1"));
        assert!(scopes.covers_stream(Ability::Append, "doc/my-1"));
        assert!(!scopes.covers_stream(Ability::Delete, "doc/my-1"));
        assert!(!scopes.covers_table("orders"));
    }

    #[test]
    fn an_admin_can_do_everything_everywhere() {
        let scopes = scopes(r#"{"tables": [], "can": ["admin"]}"#);
        for ability in [Ability::Read, Ability::Append, Ability::Delete, Ability::Sql] {
            assert!(scopes.can(ability) && scopes.covers_stream(ability, "any/thing"));
        }
        assert!(scopes.can(Ability::Observe) && scopes.covers_table("orders"));
    }

    #[test]
    fn a_host_bounds_the_reach_unless_hosts_say_otherwise() {
        let covers = |text: &str, host: Option<&str>| scopes(text).reach().covers(host);
        let own = r#"{"tables": [], "host": "acme"}"#;
        assert!(covers(own, Some("acme")));
        assert!(!covers(own, Some("other")) && !covers(own, None));
        let shared = r#"{"tables": [], "host": "acme", "hosts": [""]}"#;
        assert!(covers(shared, None) && covers(shared, Some("acme")));
        assert!(!covers(shared, Some("other")));
        let of_none = r#"{"tables": [], "hosts": ["acme"]}"#;
        assert!(covers(of_none, None) && covers(of_none, Some("acme")), "what it makes is of none");
        assert!(!covers(of_none, Some("other")));
        let all = r#"{"tables": [], "host": "acme", "hosts": ["*"]}"#;
        assert!(covers(all, None) && covers(all, Some("other")));
    }

    #[test]
    fn rules_hold_under_any_spelling_and_those_without_a_table_are_found() {
        let names = TableNames::of(
            tidewire_query::Dialect::Postgres,
            &[("orders", "public", "orders", true), ("sales.items", "sales", "items", false)],
        );
        let scopes = |text: &str| Scopes::parse(text, &(), &names).expect("well formed");
        let both = scopes(
            r#"{"tables": ["*"], "rows": {"public.orders": "a > 1", "ORDERS": "b > 2", "orders": "(TRUE)"},
                "columns": {"Orders": ["a", "b"], "orders": ["b", "c"]}}"#,
        );
        let seen = both.narrowing("orders");
        assert_eq!(seen.rows, ["b > 2".into(), "a > 1".into()]);
        assert_eq!(seen.columns, Some(vec!["b".into()]), "what all of them let pass");
        assert!(seen.says_rows && !both.narrowing("sales.items").says_rows);
        assert_eq!(both.rule_without_table(), None);
        for text in [r#""rows": {"items": "a > 1"}"#, r#""columns": {"order": ["a"]}"#] {
            let lost = scopes(&format!(r#"{{"tables": ["*"], {text}}}"#));
            assert!(lost.rule_without_table().is_some(), "{text}");
        }
        let admin = scopes(r#"{"can": ["admin"], "rows": {"order": "a > 1"}}"#);
        assert_eq!(admin.rule_without_table(), None, "rules are not for administrators");
        assert!(scopes(r#"{"tables": ["PUBLIC.Orders"]}"#).covers_table("orders"));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in [
            "",
            "[]",
            r#"{"tables": "*"}"#,
            r#"{"tables": [], "stream": ["doc/*"]}"#,
            r#"{"tables": [], "can": ["everything"]}"#,
            r#"{"tables": [], "streams": [""]}"#,
            "{\"tables\": [], \"host\": \"a\\u0000\"}",
        ] {
            assert!(Scopes::parse(text, &(), &TableNames::none()).is_err(), "{text}");
        }
    }
}
