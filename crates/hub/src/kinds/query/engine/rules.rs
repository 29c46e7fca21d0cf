//! Rules as a live query would keep them: whether one can be kept, and which of several cannot.

use std::collections::HashMap;
use std::sync::Arc;

use tidewire_query::{Access, Draft, Refusal, RuleUse, TableName, TableShape};
use tidewire_store::{SqlError, StoreError};

use super::catalogue::Named;
use super::compile::is_of_text;
use super::origin::QuerySource;
use crate::Hub;
use crate::row_filter;
use crate::row_filter::{FilterCaller, UncheckedRule};
use tidewire_access::auth::Who;

impl Hub {
    /// Says in the log what is wrong with the rules that a query was to keep, and for which table.
    pub(super) async fn blame_rules(
        &self,
        origin: &QuerySource,
        tables: &[(TableName, Arc<TableShape>)],
    ) -> Option<String> {
        let mut blamed = None;
        for (name, shape) in tables {
            let rules = origin.access.get(&shape.name).into_iter().flat_map(|it| &it.rules);
            for rule in rules {
                if let Err(UncheckedRule::Wrong { message, position }) =
                    self.try_rule(name, rule).await
                {
                    row_filter::blame(&shape.name, rule, position, &message);
                    blamed = Some(shape.name.clone());
                }
            }
        }
        blamed
    }

    /// Looks at a rule for the rows of a table, as a live query would be with it.
    pub(crate) async fn try_rule(
        &self,
        table: &TableName,
        rule: &str,
    ) -> Result<RuleUse, UncheckedRule> {
        let dialect = row_filter::dialect(&self.store);
        let later = |error: StoreError| UncheckedRule::Later(error.to_string());
        let wrong = |refusal: Refusal| UncheckedRule::Wrong {
            position: refusal.position,
            message: match refusal.hint {
                Some(hint) => format!("{} ({hint})", refusal.message),
                None => refusal.message,
            },
        };
        let named = self.queries.catalogue.look_up(&self.store, std::slice::from_ref(table)).await;
        let Some(Named::Watched(shape)) = named.map_err(later)?.into_iter().next() else {
            return Err(UncheckedRule::Later("its table is not watched".to_owned()));
        };
        // One that cannot be read is refused where it is looked at as a whole.
        let ruled = tidewire_query::rule_tables(rule, table, dialect).unwrap_or_default();
        let mut tables = Vec::new();
        self.add_ruled(&ruled, &mut tables).await.map_err(later)?;
        let kept = tidewire_query::check_rule(rule, table, &shape, &tables, dialect);
        let kept = kept.map_err(wrong)?;
        if kept == RuleUse::Everywhere || !self.options.queries.enabled {
            return Ok(kept);
        }
        // What the database thinks of its functions and types only it can say.
        let select = format!("SELECT count(*) AS n FROM {}", shape.sql_name);
        let draft = Draft::parse(&select, &[], dialect).map_err(wrong)?;
        let rules = vec![rule.into()];
        let access = HashMap::from([(shape.name.clone(), Access { rules, ..Access::default() })]);
        tables.extend(draft.tables().iter().map(|name| (name.clone(), Arc::clone(&shape))));
        let origin = QuerySource { draft, access, ruled, person: FilterCaller::default() };
        let query = origin.bind(&tables, self.query_limits()).map_err(wrong)?;
        match self.check(&query, &Who::Admin).await {
            Ok(_) => Ok(kept),
            Err(SqlError::Wrong(problem)) if is_of_text(problem.code) => {
                Err(UncheckedRule::Wrong { message: problem.message, position: None })
            }
            Err(error) => Err(UncheckedRule::Later(error.to_string())),
        }
    }
}
