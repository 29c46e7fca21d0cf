//! Which rows of a table a query concerns: what is asked for, and what may be seen.

use crate::predicate::Predicate;
use crate::row::{Row, Unsure};
use crate::shape::TenantRule;
use crate::truth::Truth;

/// All of these must hold of a row.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// The client's own and those of rules.
    pub predicates: Vec<Predicate>,
    /// Whose tenants' it must be, by the column that says so.
    pub tenants: Option<(Box<str>, TenantRule)>,
}

impl Conditions {
    /// Whether a row is one of them.
    pub fn admit(&self, row: &Row<'_>) -> Result<bool, Unsure> {
        if let Some((column, rule)) = &self.tenants {
            let value = row.get(column);
            let value = value.ok_or_else(|| Unsure::Missing { column: column.to_string() })?;
            if !rule.covers(value.get()) {
                return Ok(false);
            }
        }
        for predicate in &self.predicates {
            if predicate.test(row)? != Truth::True {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl TenantRule {
    /// Whether a tenant, as the JSON that images have of it, is one of these. A text is itself; anything
    /// else is compared as it is written.
    fn covers(&self, json: &str) -> bool {
        match serde_json::from_str::<Option<&str>>(json) {
            Ok(None) => self.shared,
            Ok(Some(host)) => self.hosts.iter().any(|known| known == host),
            Err(_) => match serde_json::from_str::<String>(json) {
                Ok(host) => self.hosts.contains(&host),
                Err(_) => self.hosts.iter().any(|known| known == json),
            },
        }
    }
}
