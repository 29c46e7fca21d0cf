//! What a caller asks of a table: the filter, and who asks.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::{Map, Value};

use tidewire_query::{Access, Caller, TenantRule};
use tidewire_store::{Reach, TABLE_PREFIX};

use tidewire_access::auth::Identity;
use tidewire_access::auth::scopes::TableRestriction;

/// What someone asks to see of a table, or may. Cheap to clone; equal ones are seen alike.
#[derive(Debug, Clone)]
pub struct View {
    asked: Arc<RequestedFilter>,
    /// The hash of that, because views are compared for every event.
    hash: u64,
}

impl PartialEq for View {
    fn eq(&self, other: &View) -> bool {
        self.hash == other.hash
            && (Arc::ptr_eq(&self.asked, &other.asked) || self.asked == other.asked)
    }
}

impl Eq for View {}

impl Hash for View {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RequestedFilter {
    pub(super) table: Box<str>,
    /// What the client wants, over the columns that it may see.
    pub(super) filter: Option<Box<str>>,
    /// What must hold of every row that it gets, over all columns.
    pub(super) rules: Vec<Box<str>>,
    /// The columns that it may see, if not all.
    pub(super) columns: Option<Vec<Box<str>>>,
    /// Whose rows it may see, if not everyone's.
    pub(super) tenants: Option<TenantRule>,
    pub(super) person: FilterCaller,
}

/// Whether rows of a tenant, or of none, are among those of some tenants.
pub fn covers(tenants: &TenantRule, host: Option<&str>) -> bool {
    match host {
        None => tenants.shared,
        Some(host) => tenants.hosts.iter().any(|known| known == host),
    }
}

/// What of a table someone may see: by the configuration's rules for it, and by their scopes.
pub(super) fn access(identity: &Identity, table: &str, rules: Vec<Box<str>>) -> Access {
    let TableRestriction { columns, rows, .. } = identity.scopes().narrowing(table);
    Access {
        columns,
        rules: rules.into_iter().chain(rows).collect(),
        tenants: match identity.scopes().reach() {
            Reach::All => None,
            Reach::Of { hosts, shared } => {
                Some(TenantRule { hosts: Arc::clone(hosts), shared: *shared })
            }
        },
    }
}

/// Who asks, as far as it matters to what is asked: what does not ask who it is for is shared.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct FilterCaller {
    user: Option<Box<str>>,
    host: Option<Box<str>>,
    /// As JSON.
    claims: Option<Box<str>>,
}

impl Caller for FilterCaller {
    fn user_id(&self) -> Option<&str> {
        self.user.as_deref()
    }

    fn host_id(&self) -> Option<&str> {
        self.host.as_deref()
    }

    fn claim(&self, name: &str) -> Option<Value> {
        let claims: Map<String, Value> = serde_json::from_str(self.claims.as_deref()?).ok()?;
        claims.get(name).cloned()
    }
}

/// The table whose changes a stream holds.
pub(super) fn table_of(stream: &str) -> Option<&str> {
    stream.strip_prefix(TABLE_PREFIX)
}

impl View {
    /// What someone sees of a table through what they may see of it and a filter. None if that is all of
    /// it.
    pub fn new(
        identity: &Identity,
        table: &str,
        access: Access,
        filter: Option<&str>,
    ) -> Option<View> {
        let Access { columns, rules, tenants } = access;
        if filter.is_none() && rules.is_empty() && columns.is_none() && tenants.is_none() {
            return None;
        }
        let texts = || filter.into_iter().chain(rules.iter().map(|rule| &**rule));
        let person = FilterCaller::asked_for(identity, texts);
        let filter = filter.map(Into::into);
        let table = table.into();
        let asked = Arc::new(RequestedFilter { table, filter, rules, columns, tenants, person });
        let mut hasher = DefaultHasher::new();
        asked.hash(&mut hasher);
        Some(View { asked, hash: hasher.finish() })
    }

    /// The same of a table that has a rule, as tests want it.
    #[cfg(test)]
    pub fn through(
        identity: &Identity,
        table: &str,
        rule: Option<&str>,
        filter: Option<&str>,
    ) -> Option<View> {
        let access = access(identity, table, rule.into_iter().map(Into::into).collect());
        View::new(identity, table, access, filter)
    }

    pub fn table(&self) -> &str {
        &self.asked.table
    }

    /// Whether not all columns are seen, so that their names are not to be told.
    pub(crate) fn hides_columns(&self) -> bool {
        self.asked.columns.is_some()
    }

    /// Whether it is that of someone bound to tenants.
    pub(super) fn is_of_tenants(&self) -> bool {
        self.asked.tenants.is_some()
    }

    pub(super) fn asked(&self) -> &RequestedFilter {
        &self.asked
    }

    /// Tells what is seen through it from what others see, in an ETag.
    pub fn tag(&self) -> String {
        let digest = tidewire_access::auth::digest(format!("{:?}", self.asked).as_bytes());
        format!("-v{}", tidewire_access::auth::hex(&digest[..8]))
    }
}

impl FilterCaller {
    /// All of an identity that a query may ask for.
    pub fn of(identity: &Identity) -> FilterCaller {
        let claims = identity.claims().map(|(claims, _)| Value::Object(claims.all.clone()));
        FilterCaller {
            user: identity.actor().user_id.map(Into::into),
            host: identity.scopes().host().map(Into::into),
            claims: claims.map(|all| all.to_string().into()),
        }
    }

    /// What of an identity the texts of predicates may ask for. A text that asks by words which are not
    /// looked for here finds nobody, and nobody's rows are not given to anyone.
    fn asked_for<'t, Texts>(identity: &Identity, texts: impl Fn() -> Texts) -> FilterCaller
    where
        Texts: Iterator<Item = &'t str>,
    {
        let named = |word: &str| texts().any(|text| text.to_ascii_lowercase().contains(word));
        if !["auth", "user", "host", "claim"].into_iter().any(named) {
            return FilterCaller::default();
        }
        let whole = FilterCaller::of(identity);
        FilterCaller { claims: whole.claims.filter(|_| named("claim")), ..whole }
    }
}
