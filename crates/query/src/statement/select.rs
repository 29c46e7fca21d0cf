//! SELECT, VALUES, set operations, CTEs and ORDER BY, with the names that each of them gives.

use sqlparser::ast::{
    Cte, Distinct, Expr, GroupByExpr, LimitClause, OrderBy, OrderByExpr, OrderByKind, Query,
    Select, SelectFlavor, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetQuantifier,
    WildcardAdditionalOptions,
};

use super::scope::{Output, Scope, is_named};
use super::title::{items, title};
use super::tokens::too_large;
use super::walk::{Claim, Walk, not_supported};
use crate::refusal::{NO_TABLE, Refusal};
use crate::table::Dialect;

/// Columns of a result, at most: as many as PostgreSQL gives.
pub(crate) const OUTPUTS_MAX: usize = 1_664;

/// CTEs that can be named, from the innermost outwards.
#[derive(Debug, Default)]
pub(crate) struct Ctes<'p> {
    pub(crate) around: Option<&'p Ctes<'p>>,
    pub(crate) here: Vec<(String, Option<Vec<Output>>)>,
}

impl Ctes<'_> {
    pub(crate) fn find(&self, name: &str, dialect: Dialect) -> Option<&Option<Vec<Output>>> {
        let here = self.here.iter().rev().find(|(known, _)| is_named(known, name, dialect));
        match here {
            Some((_, columns)) => Some(columns),
            None => self.around.and_then(|around| around.find(name, dialect)),
        }
    }
}

/// What can be named where something stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameScope<'p> {
    pub(crate) scope: Option<&'p Scope<'p>>,
    pub(crate) ctes: &'p Ctes<'p>,
}

/// The columns of a result; none if they are not known yet.
pub(crate) type Outputs = Option<Vec<Output>>;

impl Walk<'_> {
    pub(crate) fn query(
        &mut self,
        query: &Query,
        around: NameScope<'_>,
    ) -> Result<Outputs, Refusal> {
        if !query.locks.is_empty() {
            return Err(not_supported("FOR UPDATE or FOR SHARE")
                .hint("a live query only reads")
                .at(self.word_position("for")));
        }
        let plain = query.for_clause.is_none()
            && query.settings.is_none()
            && query.format_clause.is_none()
            && query.pipe_operators.is_empty();
        if !plain {
            return Err(self.unsupported("what follows the SELECT", query));
        }
        let mut ctes = Ctes { around: Some(around.ctes), here: Vec::new() };
        if let Some(with) = &query.with {
            for cte in &with.cte_tables {
                self.cte(cte, with.recursive, around.scope, &mut ctes)?;
            }
        }
        let around = NameScope { ctes: &ctes, ..around };
        let (outputs, scope) = self.body(&query.body, around)?;
        if let Some(order_by) = &query.order_by {
            self.order_by(order_by, &outputs, &scope, around)?;
        }
        self.limits(query, around)?;
        Ok(outputs)
    }

    fn cte(
        &mut self,
        cte: &Cte,
        recursive: bool,
        scope: Option<&Scope<'_>>,
        ctes: &mut Ctes<'_>,
    ) -> Result<(), Refusal> {
        if cte.from.is_some() || cte.alias.at.is_some() {
            return Err(self.unsupported("this kind of WITH", &cte.alias.name));
        }
        let at = self.claim(&cte.alias.name, Claim::Name)?;
        let name = self.fold(&cte.alias.name);
        self.ctes.push((name.clone(), at));
        let mut renamed = Vec::new();
        for column in &cte.alias.columns {
            if column.data_type.is_some() {
                return Err(self.unsupported("a column with a type here", &column.name));
            }
            self.claim(&column.name, Claim::Name)?;
            renamed.push(self.fold(&column.name));
        }
        let rename = |outputs: Outputs| {
            outputs.map(|outputs| {
                let named = |(at, output): (usize, Output)| {
                    let name = renamed.get(at).cloned().unwrap_or(output.name);
                    Output { name, from: None }
                };
                outputs.into_iter().enumerate().map(named).collect::<Vec<Output>>()
            })
        };
        if recursive {
            let own = rename(self.first_columns(&cte.query, scope, ctes, &name)?);
            ctes.here.push((name, own));
            let around = NameScope { scope, ctes };
            let outputs = rename(self.query(&cte.query, around)?);
            if let Some(last) = ctes.here.last_mut() {
                last.1 = outputs;
            }
        } else {
            let outputs = rename(self.query(&cte.query, NameScope { scope, ctes })?);
            ctes.here.push((name, outputs));
        }
        Ok(())
    }

    /// The columns of a recursive CTE: those of its first part, which may not name it.
    fn first_columns(
        &mut self,
        query: &Query,
        scope: Option<&Scope<'_>>,
        ctes: &Ctes<'_>,
        name: &str,
    ) -> Result<Outputs, Refusal> {
        let mut first = &*query.body;
        let mut is_union = false;
        while let SetExpr::SetOperation { left, .. } = first {
            first = left;
            is_union = true;
        }
        if !is_union {
            // It cannot be recursive, whatever WITH says, unless it is wrong.
            return Ok(Some(Vec::new()));
        }
        let inner = Ctes { around: Some(ctes), here: vec![(name.to_owned(), Some(Vec::new()))] };
        let mut probe = Walk::new(self.dialect, self.pieces, self.known);
        let ctes = match &query.with {
            Some(with) => {
                let mut own = Ctes { around: Some(&inner), here: Vec::new() };
                for cte in &with.cte_tables {
                    probe.cte(cte, with.recursive, scope, &mut own)?;
                }
                own
            }
            None => Ctes { around: Some(&inner), here: Vec::new() },
        };
        let (outputs, _) = probe.body(first, NameScope { scope, ctes: &ctes })?;
        Ok(outputs)
    }

    fn body<'p>(
        &mut self,
        body: &SetExpr,
        around: NameScope<'p>,
    ) -> Result<(Outputs, Scope<'p>), Refusal> {
        match body {
            SetExpr::Select(select) => self.select(select, around),
            SetExpr::Query(query) => {
                let outputs = self.query(query, around)?;
                Ok((outputs, Scope { around: around.scope, ..Scope::default() }))
            }
            SetExpr::SetOperation { .. } => self.set_operation(body, around),
            SetExpr::Values(values) => {
                self.selects += 1;
                if values.explicit_row || values.value_keyword {
                    return Err(self.unsupported("this kind of VALUES", body));
                }
                let scope = Scope { around: around.scope, ..Scope::default() };
                for row in &values.rows {
                    self.expressions(&row.content, &scope, around.ctes)?;
                }
                let width = values.rows.first().map_or(0, |row| row.content.len());
                within_outputs(width).map_err(|refusal| refusal.at(self.position(body)))?;
                let named = |at: usize| Output { name: format!("column{at}"), from: None };
                Ok((Some((1..=width).map(named).collect()), scope))
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                let words = ["insert", "update", "delete", "merge"];
                let position = words.iter().filter_map(|word| self.word_position(word)).min();
                Err(not_supported("a statement that writes")
                    .hint("a live query only reads")
                    .at(position))
            }
            SetExpr::Table(_) => {
                Err(self.unsupported("TABLE", body).hint("write SELECT * FROM the table"))
            }
        }
    }

    /// Chains of them lean to the left as deep as they are long.
    fn set_operation<'p>(
        &mut self,
        body: &SetExpr,
        around: NameScope<'p>,
    ) -> Result<(Outputs, Scope<'p>), Refusal> {
        let mut others = Vec::new();
        let mut first = body;
        while let SetExpr::SetOperation { left, right, set_quantifier, .. } = first {
            if !matches!(
                set_quantifier,
                SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None
            ) {
                return Err(self.unsupported("BY NAME", right.as_ref()));
            }
            others.push(right);
            first = left;
        }
        let (outputs, _) = self.body(first, around)?;
        for other in others.into_iter().rev() {
            self.body(other, around)?;
        }
        let plain = |output: Output| Output { from: None, ..output };
        let outputs = outputs.map(|all| all.into_iter().map(plain).collect());
        Ok((outputs, Scope { around: around.scope, ..Scope::default() }))
    }

    fn select<'p>(
        &mut self,
        select: &Select,
        around: NameScope<'p>,
    ) -> Result<(Outputs, Scope<'p>), Refusal> {
        self.selects += 1;
        if select.into.is_some() {
            return Err(not_supported("INTO")
                .hint("a live query only reads")
                .at(self.word_position("into")));
        }
        let plain = select.optimizer_hints.is_empty()
            && select.select_modifiers.is_none()
            && select.top.is_none()
            && select.exclude.is_none()
            && select.lateral_views.is_empty()
            && select.prewhere.is_none()
            && select.connect_by.is_empty()
            && select.cluster_by.is_empty()
            && select.distribute_by.is_empty()
            && select.sort_by.is_empty()
            && select.qualify.is_none()
            && select.value_table_mode.is_none()
            && select.flavor == SelectFlavor::Standard;
        if !plain {
            return Err(self.unsupported("this kind of SELECT", select));
        }
        let at = self.token(select.select_token.0.span).unwrap_or_default();
        let mut scope = Scope { around: around.scope, ..Scope::default() };
        self.from(&select.from, at, &mut scope, around.ctes)?;
        let ctes = around.ctes;
        // SQLite lets a result's names be used everywhere in its SELECT.
        let aliases = self.aliases(select);
        if self.dialect == Dialect::Sqlite {
            scope.aliases.clone_from(&aliases);
        }
        let outputs = self.projection(select, at, &scope, ctes)?;
        if let Some(Distinct::On(columns)) = &select.distinct {
            self.sort_expressions(columns, &aliases, &scope, ctes)?;
        }
        if let Some(condition) = &select.selection {
            self.expression(condition, &scope, ctes)?;
        }
        match &select.group_by {
            GroupByExpr::Expressions(columns, modifiers) if modifiers.is_empty() => {
                self.sort_expressions(columns, &aliases, &scope, ctes)?;
            }
            _ => return Err(self.unsupported("this kind of GROUP BY", select)),
        }
        if let Some(condition) = &select.having {
            self.expression(condition, &scope, ctes)?;
        }
        for window in &select.named_window {
            self.named_window(window, &scope, ctes)?;
        }
        Ok((outputs, scope))
    }

    fn aliases(&self, select: &Select) -> Vec<String> {
        let alias = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(self.fold(alias)),
            _ => None,
        };
        select.projection.iter().filter_map(alias).collect()
    }

    fn projection(
        &mut self,
        select: &Select,
        at: usize,
        scope: &Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<Outputs, Refusal> {
        let mut outputs: Outputs = Some(Vec::new());
        let mut written = items(self.pieces, at).into_iter();
        for item in &select.projection {
            let tokens = written.next().unwrap_or((at, at));
            let more = match item {
                SelectItem::UnnamedExpr(expr) => {
                    self.expression(expr, scope, ctes)?;
                    let name = title(expr, tokens, self);
                    Some(vec![Output { name, from: self.plain_column(expr) }])
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    self.expression(expr, scope, ctes)?;
                    // A string may be an alias in SQLite, and is nothing to claim. To PostgreSQL a name
                    // with a string after it is a value of the type of that name.
                    if self.dialect == Dialect::Postgres || alias.quote_style != Some('\'') {
                        self.claim(alias, Claim::Name)?;
                    }
                    let name = match self.dialect {
                        Dialect::Postgres => self.fold(alias),
                        Dialect::Sqlite => alias.value.clone(),
                    };
                    Some(vec![Output { name, from: self.plain_column(expr) }])
                }
                SelectItem::Wildcard(options) => {
                    self.plain_wildcard(options)?;
                    scope.star.clone()
                }
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    options,
                ) => {
                    self.plain_wildcard(options)?;
                    let [sqlparser::ast::ObjectNamePart::Identifier(table)] = name.0.as_slice()
                    else {
                        return Err(self.unsupported("a schema before .*", name));
                    };
                    let known = self.fold(table);
                    let here = scope.source(&known, self.dialect);
                    let columns = here.map(|source| source.columns.clone()).ok_or_else(|| {
                        let message = format!("{} is no table of this query", table.value);
                        Refusal::new(NO_TABLE, message).at(self.position(table))
                    })?;
                    self.claim(table, Claim::Name)?;
                    columns
                }
                other => return Err(self.unsupported("this in a SELECT's list", other)),
            };
            if matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)) {
                for (occurrence, column) in more.iter().flatten().filter_map(|it| it.from) {
                    self.read(occurrence, column);
                }
            }
            // Before they are put together: each WITH could double those of the one before it.
            let width = [&outputs, &more].into_iter().flatten().map(Vec::len).sum();
            within_outputs(width).map_err(|refusal| refusal.at(self.position(item)))?;
            outputs = match (outputs, more) {
                (Some(mut all), Some(more)) => {
                    all.extend(more);
                    Some(all)
                }
                _ => None,
            };
        }
        Ok(outputs)
    }

    /// The column that an expression is, if it is nothing else.
    pub(crate) fn plain_column(&self, expr: &Expr) -> Option<(usize, usize)> {
        let name = match expr {
            Expr::Nested(inner) => return self.plain_column(inner),
            Expr::Identifier(name) => name,
            Expr::CompoundIdentifier(parts) => parts.last()?,
            _ => return None,
        };
        match self.claims.get(self.token(name.span)?)? {
            Claim::Column { occurrence, column, .. } => Some((*occurrence, *column)),
            _ => None,
        }
    }

    fn plain_wildcard(&self, options: &WildcardAdditionalOptions) -> Result<(), Refusal> {
        let plain = options.opt_ilike.is_none()
            && options.opt_exclude.is_none()
            && options.opt_except.is_none()
            && options.opt_replace.is_none()
            && options.opt_rename.is_none()
            && options.opt_alias.is_none();
        if plain { Ok(()) } else { Err(self.unsupported("what follows *", options)) }
    }

    fn order_by(
        &mut self,
        order_by: &OrderBy,
        outputs: &Outputs,
        scope: &Scope<'_>,
        around: NameScope<'_>,
    ) -> Result<(), Refusal> {
        let OrderByKind::Expressions(keys) = &order_by.kind else {
            return Err(self.unsupported("ORDER BY ALL", order_by));
        };
        if order_by.interpolate.is_some() || keys.iter().any(|key| key.with_fill.is_some()) {
            return Err(self.unsupported("this kind of ORDER BY", order_by));
        }
        let names: Vec<String> =
            outputs.iter().flatten().map(|output| output.name.clone()).collect();
        for key in keys {
            let is_open = outputs.is_none();
            self.sort_key(key, &names, is_open, scope, around.ctes)?;
        }
        Ok(())
    }

    fn sort_key(
        &mut self,
        key: &OrderByExpr,
        names: &[String],
        is_open: bool,
        scope: &Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<(), Refusal> {
        if let Expr::Identifier(name) = &key.expr {
            let folded = self.fold(name);
            let is_output = names.iter().any(|known| is_named(known, &folded, self.dialect));
            if is_output || is_open {
                // It may be a column as well: then that is read.
                if self.column(std::slice::from_ref(name), scope).is_err() {
                    self.claim(name, Claim::OtherColumn)?;
                }
                return Ok(());
            }
        }
        self.expression(&key.expr, scope, ctes)
    }

    /// Expressions of GROUP BY and DISTINCT ON, where a name may be one that the result has.
    fn sort_expressions(
        &mut self,
        expressions: &[Expr],
        aliases: &[String],
        scope: &Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<(), Refusal> {
        for expr in expressions {
            match expr {
                Expr::Identifier(name)
                    if aliases
                        .iter()
                        .any(|known| is_named(known, &self.fold(name), self.dialect)) =>
                {
                    if self.column(std::slice::from_ref(name), scope).is_err() {
                        self.claim(name, Claim::OtherColumn)?;
                    }
                }
                _ => self.expression(expr, scope, ctes)?,
            }
        }
        Ok(())
    }

    fn limits(&mut self, query: &Query, around: NameScope<'_>) -> Result<(), Refusal> {
        let scope = Scope { around: around.scope, ..Scope::default() };
        match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) => {
                if !limit_by.is_empty() {
                    return Err(self.unsupported("LIMIT BY", query));
                }
                let offset = offset.iter().map(|offset| &offset.value);
                for expr in limit.iter().chain(offset) {
                    self.expression(expr, &scope, around.ctes)?;
                }
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                self.expression(offset, &scope, around.ctes)?;
                self.expression(limit, &scope, around.ctes)?;
            }
            None => {}
        }
        if let Some(fetch) = &query.fetch {
            if fetch.percent {
                return Err(self.unsupported("FETCH PERCENT", query));
            }
            if let Some(quantity) = &fetch.quantity {
                self.expression(quantity, &scope, around.ctes)?;
            }
        }
        Ok(())
    }
}

fn within_outputs(width: usize) -> Result<(), Refusal> {
    if width > OUTPUTS_MAX {
        return Err(too_large(&format!("has more than {OUTPUTS_MAX} columns in a result")));
    }
    Ok(())
}
