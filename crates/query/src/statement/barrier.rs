//! What the database runs: the client's tokens, with a subquery in the place of each table that has the
//! columns and rows its caller may see, and no others.

use sqlparser::ast::{Expr, OrderByKind, SelectItem, SelectItemQualifiedWildcardKind};
use sqlparser::tokenizer::Token;

use super::bind::Bound;
use super::emit::{Edits, Emitted, emit, quoted};
use super::walk::Claim;
use super::r#where::Conjunct;
use super::wrap::{computed_bytes_max, gathered_once, within_gathered};
use crate::table::Dialect;

impl Bound<'_> {
    /// The whole statement. With fences the client's expressions are kept away from rows that it may not
    /// see: those of a re-query may fail on them and tell something by that.
    pub(crate) fn emit(&self, fenced: bool) -> Emitted {
        let mut edits = Edits::default();
        for (at, it) in self.occurrences().iter().enumerate() {
            let mut text = self.barrier(at, fenced);
            if !it.has_alias {
                text = format!("{text} AS {}", quoted(&it.alias));
            }
            edits.replace(it.from, it.to, text);
        }
        if self.dialect() == Dialect::Postgres {
            for at in 0..self.walk.pieces.len() {
                if self.walk.is_call(at) {
                    edits.put_before(at, "pg_catalog.");
                }
            }
            self.as_images(&mut edits);
        }
        for wrap in &self.walk.wraps {
            let computed_max = computed_bytes_max(self.walk.made);
            edits.put_around(wrap.from, wrap.to, wrap.kind.around(self.dialect(), computed_max));
        }
        self.count_gathered(&mut edits);
        emit(self.walk.pieces, 0, self.walk.pieces.len(), &edits)
    }

    /// Has the database count what aggregates gather, by a filter of theirs.
    fn count_gathered(&self, edits: &mut Edits) {
        for it in &self.walk.gathered {
            if it.once {
                for (from, to) in &it.values {
                    edits.put_around(*from, *to, gathered_once());
                }
                continue;
            }
            let value = |&(from, to): &(usize, usize)| emit(self.walk.pieces, from, to, edits).text;
            let values: Vec<String> = it.values.iter().map(value).collect();
            let condition = within_gathered(&values);
            let (from, to, around) = match it.filter {
                Some((from, to)) => (from, to, ("(".to_owned(), format!(") AND {condition}"))),
                None => (it.from, it.to, (String::new(), format!("FILTER (WHERE {condition})"))),
            };
            edits.put_around(from, to, around);
        }
    }

    /// `(SELECT "id", … FROM "public"."orders" AS "orders" WHERE …)`.
    fn barrier(&self, occurrence: usize, fenced: bool) -> String {
        let it = &self.occurrences()[occurrence];
        let (known, guard) = (&self.known[it.table], &self.guards[it.table]);
        let name = |at: &usize| quoted(&known.shape.columns[*at].column.name);
        let columns: Vec<String> = known.visible.iter().map(name).collect();
        let fenced = (fenced || self.hide_timing) && !guard.sql.is_empty();
        // No index is used behind the fence for what stands before it.
        let pushed = if fenced { self.pushed(occurrence) } else { Vec::new() };
        let condition = conditions(guard.sql.iter().chain(&pushed));
        let fence = if fenced { self.fence() } else { "" };
        let (sql_name, own) = (&known.shape.sql_name, quoted(&known.name.name));
        format!("(SELECT {} FROM {sql_name} AS {own}{condition}{fence})", columns.join(", "))
    }

    /// `FROM … WHERE …` of a SELECT from one table: all its columns, and the rows that are asked for and
    /// may be seen.
    pub(crate) fn source_sql(&self) -> String {
        let Some(it) = self.occurrences().first() else { return String::new() };
        let (known, guard) = (&self.known[it.table], &self.guards[it.table]);
        let asked = self.where_tokens(it.select);
        let asked = asked.and_then(|tokens| self.condition(0, tokens).ok()).map(|it| it.sql);
        let (sql_name, alias) = (&known.shape.sql_name, quoted(&it.alias));
        if !self.hide_timing || guard.sql.is_empty() {
            let condition = conditions(guard.sql.iter().chain(&asked));
            return format!("FROM {sql_name} AS {alias}{condition}");
        }
        let seen = conditions(guard.sql.iter().chain(&self.pushed(0)));
        let (fence, condition) = (self.fence(), conditions(asked.iter()));
        format!("FROM (SELECT * FROM {sql_name} AS {alias}{seen}{fence}) AS {alias}{condition}")
    }

    /// What of the client's conditions is looked up together with the rules: what cannot fail. Where times
    /// shall not tell of rows that are not seen, only a whole key: an index then has one row at most, and
    /// the others of its key are not asked for.
    fn pushed(&self, occurrence: usize) -> Vec<String> {
        let conjuncts = self.conjuncts(occurrence);
        let keys = &self.shape(occurrence).key;
        let is_of = |key: &String, conjunct: &Conjunct| conjunct.value_of() == Some(key.as_str());
        let has_key = |key| conjuncts.iter().any(|conjunct| is_of(key, conjunct));
        let is_whole = !keys.is_empty() && keys.iter().all(has_key);
        let is_pushed = |conjunct: &Conjunct| match self.hide_timing {
            false => true,
            true => is_whole && keys.iter().any(|key| is_of(key, conjunct)),
        };
        conjuncts.into_iter().filter(is_pushed).map(|conjunct| conjunct.sql).collect()
    }

    /// What keeps the database from moving conditions into a subquery.
    fn fence(&self) -> &'static str {
        match self.dialect() {
            Dialect::Postgres => " OFFSET 0",
            Dialect::Sqlite => " LIMIT -1",
        }
    }

    /// Has the result's columns read as images have them, where a SELECT would give another text.
    fn as_images(&self, edits: &mut Edits) {
        let Some(select) = self.select() else { return };
        let is_plain = select.distinct.is_none() && !self.is_grouped();
        if !is_plain || !self.outputs.iter().any(|output| self.is_json_text(output.from)) {
            return;
        }
        let sorted = self.sorted_names();
        let token = |expr: &Expr| match expr {
            Expr::Identifier(name) => self.walk.token(name.span),
            Expr::CompoundIdentifier(parts) => self.walk.token(parts.last()?.span),
            _ => None,
        };
        for item in &select.projection {
            let (expr, is_named) = match item {
                SelectItem::UnnamedExpr(expr) => (expr, false),
                SelectItem::ExprWithAlias { expr, .. } => (expr, true),
                SelectItem::Wildcard(options) => {
                    self.star_as_images(&options.wildcard_token, 0, edits);
                    continue;
                }
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(_),
                    options,
                ) => {
                    self.star_as_images(&options.wildcard_token, 2, edits);
                    continue;
                }
                _ => continue,
            };
            let Some(at) = token(expr) else { continue };
            let Claim::Column { occurrence, column, from } = self.walk.claims[at] else { continue };
            let name = &self.shape(occurrence).columns[column].column.name;
            if !self.is_json_text(Some((occurrence, column))) || sorted.contains(name) {
                continue;
            }
            let written = emit(self.walk.pieces, from, at + 1, &Edits::default()).text;
            let alias = if is_named { String::new() } else { format!(" AS {}", quoted(name)) };
            edits.replace(from, at + 1, format!("pg_catalog.to_jsonb({written}){alias}"));
        }
    }

    /// `*` of the only table, written out.
    fn star_as_images(
        &self,
        star: &sqlparser::ast::helpers::attached_token::AttachedToken,
        before: usize,
        edits: &mut Edits,
    ) {
        let Some(at) = self.walk.token(star.0.span) else { return };
        let is_star = self.walk.pieces[at].token == Token::Mul;
        let ([it], 1, true) = (self.occurrences(), self.walk.selects, is_star) else { return };
        let known = &self.known[it.table];
        let is_renamed = known.visible.iter().zip(&self.outputs).any(|(at, output)| {
            output.from.is_some() && known.shape.columns[*at].column.name != output.name
        });
        if is_renamed {
            return;
        }
        let column = |at: &usize| {
            let name = quoted(&known.shape.columns[*at].column.name);
            match known.shape.columns[*at].json_text {
                true => format!("pg_catalog.to_jsonb({name}) AS {name}"),
                false => name,
            }
        };
        let columns: Vec<String> = known.visible.iter().map(column).collect();
        edits.replace(at - before.min(at), at + 1, columns.join(", "));
    }

    fn is_json_text(&self, column: Option<(usize, usize)>) -> bool {
        column.is_some_and(|(occurrence, at)| self.shape(occurrence).columns[at].json_text)
    }

    pub(crate) fn shape(&self, occurrence: usize) -> &crate::shape::TableShape {
        &self.known[self.occurrences()[occurrence].table].shape
    }

    /// Names that ORDER BY has alone: they are the result's columns, as they are there.
    fn sorted_names(&self) -> Vec<String> {
        let keys = match self.statement.order_by.as_ref().map(|order_by| &order_by.kind) {
            Some(OrderByKind::Expressions(keys)) => keys.as_slice(),
            _ => &[],
        };
        let name = |expr: &Expr| match expr {
            Expr::Identifier(name) => Some(self.walk.fold(name)),
            _ => None,
        };
        keys.iter().filter_map(|key| name(&key.expr)).collect()
    }
}

/// ` WHERE …`, if there is anything that must hold.
fn conditions<'a>(all: impl Iterator<Item = &'a String>) -> String {
    let all: Vec<String> = all.map(|condition| format!("({condition})")).collect();
    if all.is_empty() { String::new() } else { format!(" WHERE {}", all.join(" AND ")) }
}
