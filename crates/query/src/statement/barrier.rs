//! What the database runs: the client's tokens, with a subquery in the place of each table that has the
//! columns and rows its caller may see, and no others.

use sqlparser::ast::{Expr, OrderByKind, SelectItem, SelectItemQualifiedWildcardKind};
use sqlparser::tokenizer::Token;

use super::bind::Bound;
use super::emit::{Edits, Emitted, emit, quoted};
use super::walk::Claim;
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
        emit(self.walk.pieces, 0, self.walk.pieces.len(), &edits)
    }

    /// `(SELECT "id", … FROM "public"."orders" AS "orders" WHERE …)`.
    fn barrier(&self, occurrence: usize, fenced: bool) -> String {
        let it = &self.occurrences()[occurrence];
        let (known, guard) = (&self.known[it.table], &self.guards[it.table]);
        let name = |at: &usize| quoted(&known.shape.columns[*at].column.name);
        let columns: Vec<String> = known.visible.iter().map(name).collect();
        let mut conditions: Vec<String> =
            guard.sql.iter().map(|condition| format!("({condition})")).collect();
        let fenced = fenced && !conditions.is_empty();
        if fenced {
            // No index would be used behind the fence for what stands before it.
            let pushed = self.conjuncts(occurrence).into_iter();
            conditions.extend(pushed.map(|conjunct| format!("({})", conjunct.sql)));
        }
        let condition = match conditions.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", conditions.join(" AND ")),
        };
        let fence = match (fenced, self.dialect()) {
            (false, _) => "",
            (true, Dialect::Postgres) => " OFFSET 0",
            (true, Dialect::Sqlite) => " LIMIT -1",
        };
        let (sql_name, own) = (&known.shape.sql_name, quoted(&known.name.name));
        format!("(SELECT {} FROM {sql_name} AS {own}{condition}{fence})", columns.join(", "))
    }

    /// `FROM … WHERE …` of a SELECT from one table: all its columns, and the rows that are asked for and
    /// may be seen.
    pub(crate) fn source_sql(&self) -> String {
        let Some(it) = self.occurrences().first() else { return String::new() };
        let (known, guard) = (&self.known[it.table], &self.guards[it.table]);
        let mut conditions: Vec<String> =
            guard.sql.iter().map(|condition| format!("({condition})")).collect();
        if let Some(tokens) = self.where_tokens(it.select)
            && let Ok(condition) = self.condition(0, tokens)
        {
            conditions.push(format!("({})", condition.sql));
        }
        let condition = match conditions.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", conditions.join(" AND ")),
        };
        format!("FROM {} AS {}{condition}", known.shape.sql_name, quoted(&it.alias))
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
