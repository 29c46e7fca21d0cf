//! FROM: tables, joins, subqueries and the few functions that may be there.

use std::collections::{HashMap, HashSet};

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    ObjectNamePart, TableAlias, TableFactor, TableWithJoins,
};

use super::begins::Begins;
use super::functions::table_columns;
use super::scope::{Output, Scope, Source};
use super::select::{Ctes, NameScope, Outputs};
use super::series;
use super::tokens::too_large;
use super::walk::{Claim, Occurrence, Walk};
use crate::refusal::{NO_FUNCTION, NO_TABLE, Refusal};
use crate::shape::TableName;
use crate::table::Dialect;

/// Columns of all that one FROM names, at most: each name in its SELECT is looked for among them.
const FROM_COLUMNS_MAX: usize = 16_640;

/// How the sides of a join are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Either,
}

impl Walk<'_> {
    pub(crate) fn from(
        &mut self,
        from: &[TableWithJoins],
        select: usize,
        scope: &mut Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<(), Refusal> {
        let mut star = Some(Vec::new());
        for item in from {
            let columns = self.joined(item, select, scope, ctes)?;
            star = both(star, columns);
        }
        scope.star = star;
        Ok(())
    }

    /// A table and what is joined to it; its columns in the order of `*`.
    fn joined(
        &mut self,
        item: &TableWithJoins,
        select: usize,
        scope: &mut Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<Outputs, Refusal> {
        let mut columns = self.factor(&item.relation, select, scope, ctes)?;
        for join in &item.joins {
            let right = self.factor(&join.relation, select, scope, ctes)?;
            columns = self.join(join, columns, right, scope, ctes)?;
        }
        Ok(columns)
    }

    fn join(
        &mut self,
        join: &Join,
        left: Outputs,
        right: Outputs,
        scope: &Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<Outputs, Refusal> {
        let (constraint, side) = match &join.join_operator {
            JoinOperator::Join(it)
            | JoinOperator::Inner(it)
            | JoinOperator::Left(it)
            | JoinOperator::LeftOuter(it)
            | JoinOperator::CrossJoin(it) => (it, Side::Left),
            JoinOperator::Right(it)
            | JoinOperator::RightOuter(it)
            | JoinOperator::FullOuter(it) => (it, Side::Either),
            _ => return Err(self.unsupported("this kind of join", join)),
        };
        if join.global {
            return Err(self.unsupported("GLOBAL", join));
        }
        match constraint {
            JoinConstraint::None => Ok(both(left, right)),
            JoinConstraint::On(condition) => {
                self.expression(condition, scope, ctes)?;
                Ok(both(left, right))
            }
            JoinConstraint::Using(names) => {
                let mut merged = Vec::new();
                for name in names {
                    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
                        return Err(self.unsupported("this in USING", name));
                    };
                    // It is a column of each side, or the database says so.
                    self.column(std::slice::from_ref(name), scope)?;
                    self.claim(name, Claim::OtherColumn)?;
                    merged.push(self.fold(name));
                }
                Ok(self.merge(left, right, &merged, side))
            }
            JoinConstraint::Natural => {
                let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
                let on_right: HashSet<String> =
                    right.iter().map(|it| same(&it.name, self.dialect)).collect();
                let common =
                    left.iter().filter(|it| on_right.contains(&same(&it.name, self.dialect)));
                let common: Vec<String> = common.map(|it| it.name.clone()).collect();
                Ok(self.merge(Some(left), Some(right), &common, side))
            }
        }
    }

    /// The columns of a join in which some are one.
    fn merge(&mut self, left: Outputs, right: Outputs, names: &[String], side: Side) -> Outputs {
        let (left, right) = (left?, right?);
        let dialect = self.dialect;
        let merged: HashSet<String> = names.iter().map(|name| same(name, dialect)).collect();
        let is_merged = |output: &Output| merged.contains(&same(&output.name, dialect));
        for (occurrence, column) in
            left.iter().chain(&right).filter(|it| is_merged(it)).filter_map(|it| it.from)
        {
            self.read(occurrence, column);
        }
        // From the last to the first, so that of several the first stays.
        let by_name: HashMap<String, &Output> =
            left.iter().rev().map(|it| (same(&it.name, dialect), it)).collect();
        let find = |name: &String| by_name.get(&same(name, dialect));
        let first = names.iter().filter_map(find).map(|output| Output {
            name: output.name.clone(),
            from: output.from.filter(|_| side == Side::Left),
        });
        let rest = left.iter().chain(&right).filter(|it| !is_merged(it)).cloned();
        let columns = match dialect {
            Dialect::Postgres => first.chain(rest).collect(),
            // They stay where the left side has them.
            Dialect::Sqlite => {
                let right = right.iter().filter(|it| !is_merged(it));
                left.iter().chain(right).cloned().collect()
            }
        };
        Some(columns)
    }

    fn factor(
        &mut self,
        factor: &TableFactor,
        select: usize,
        scope: &mut Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<Outputs, Refusal> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_hints,
            } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
                let source = self.table(name, alias.as_ref(), select, ctes)?;
                self.enter(scope, source, factor)
            }
            TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality,
                sample: None,
                ..
            } if args.settings.is_none() => {
                let arguments = (args.args.as_slice(), *with_ordinality);
                self.function_table(name, arguments, alias.as_ref(), scope, ctes)
            }
            TableFactor::Function { name, args, with_ordinality, alias, .. } => {
                let arguments = (args.as_slice(), *with_ordinality);
                self.function_table(name, arguments, alias.as_ref(), scope, ctes)
            }
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality,
            } if self.dialect == Dialect::Postgres => {
                self.expressions(array_exprs, scope, ctes)?;
                let name = match alias {
                    Some(alias) => self.fold(&alias.name),
                    None => "unnest".to_owned(),
                };
                let width = array_exprs.len();
                let mut columns = vec![Output { name: name.clone(), from: None }; width];
                ordinality(&mut columns, *with_ordinality);
                let source = Source { name: Some(name), columns: Some(columns), is_value: false };
                let source = self.renamed(source, alias.as_ref())?;
                self.enter(scope, source, factor)
            }
            TableFactor::Derived { lateral, subquery, alias, sample: None } => {
                let outer = if *lateral { Some(&*scope) } else { scope.around };
                let outputs = self.query(subquery, NameScope { scope: outer, ctes })?;
                let plain = |output: Output| Output { from: None, ..output };
                let columns = outputs.map(|all| all.into_iter().map(plain).collect());
                let name = alias.as_ref().map(|alias| self.fold(&alias.name));
                let source = Source { name, columns, is_value: false };
                let source = self.renamed(source, alias.as_ref())?;
                self.enter(scope, source, factor)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.joined(table_with_joins, select, scope, ctes)
            }
            other => Err(self.unsupported("this in FROM", other)),
        }
    }

    /// A table or a CTE.
    fn table(
        &mut self,
        name: &ObjectName,
        alias: Option<&TableAlias>,
        select: usize,
        ctes: &Ctes<'_>,
    ) -> Result<Source, Refusal> {
        let parts = identifiers(name);
        let (schema, table) = match parts.as_slice() {
            [table] => (None, *table),
            [schema, table] => (Some(*schema), *table),
            _ => return Err(self.unsupported("this name of a table", name)),
        };
        let folded = self.fold(table);
        let to = self.claim(table, Claim::Name)? + 1;
        if schema.is_none()
            && let Some(columns) = ctes.find(&folded, self.dialect)
        {
            let columns = columns.clone();
            let source = Source { name: Some(folded), columns, is_value: false };
            return self.renamed(source, alias);
        }
        let from = match schema {
            Some(schema) => self.claim(schema, Claim::Name)?,
            None => to - 1,
        };
        let schema = schema.map(|schema| self.fold(schema).into());
        let table = self.base_table(TableName { schema, name: folded.clone().into() }, from)?;
        let occurrence = self.occurrences.len();
        let columns = self.known.map(|known| {
            let known = &known[table];
            let output = |column: &usize| Output {
                name: known.shape.columns[*column].column.name.clone(),
                from: Some((occurrence, *column)),
            };
            known.visible.iter().map(output).collect()
        });
        let width = self.known.map_or(0, |known| known[table].shape.columns.len());
        self.occurrences.push(Occurrence {
            table,
            from,
            to,
            alias: alias.map_or(folded.clone(), |alias| self.fold(&alias.name)),
            has_alias: alias.is_some(),
            select,
            read: vec![false; width],
        });
        self.renamed(Source { name: Some(folded), columns, is_value: false }, alias)
    }

    fn base_table(&mut self, name: TableName, token: usize) -> Result<usize, Refusal> {
        if !self.tables.contains(&name) {
            self.tables.push(name.clone());
        }
        let found = match self.known {
            Some(known) => known.iter().position(|it| it.name == name),
            None => self.tables.iter().position(|it| *it == name),
        };
        found.ok_or_else(|| {
            let message = format!("there is no table {}", name.name);
            Refusal::new(NO_TABLE, message)
                .hint("a live query reads tables that are watched")
                .at(Some(self.pieces[token].at))
        })
    }

    /// A source under the names that its alias gives.
    fn renamed(&mut self, source: Source, alias: Option<&TableAlias>) -> Result<Source, Refusal> {
        let Some(alias) = alias else { return Ok(source) };
        if alias.at.is_some() {
            return Err(self.unsupported("AT", &alias.name));
        }
        self.claim(&alias.name, Claim::Name)?;
        if let (Dialect::Sqlite, Some(column)) = (self.dialect, alias.columns.first()) {
            return Err(self
                .unsupported("a list of columns after an alias in SQLite", &column.name)
                .hint("name the columns in the subquery, or in WITH"));
        }
        let mut names = Vec::new();
        for column in &alias.columns {
            if column.data_type.is_some() {
                return Err(self.unsupported("a column with a type here", &column.name));
            }
            self.claim(&column.name, Claim::Name)?;
            names.push(self.fold(&column.name));
        }
        let columns = source.columns.map(|columns| {
            let rename = |(at, output): (usize, Output)| match names.get(at) {
                Some(name) => Output { name: name.clone(), from: output.from },
                None => output,
            };
            columns.into_iter().enumerate().map(rename).collect()
        });
        Ok(Source { name: Some(self.fold(&alias.name)), columns, ..source })
    }

    fn function_table(
        &mut self,
        name: &ObjectName,
        (arguments, with_ordinality): (&[FunctionArg], bool),
        alias: Option<&TableAlias>,
        scope: &mut Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<Outputs, Refusal> {
        let parts = identifiers(name);
        let known = match parts.as_slice() {
            [function] => {
                let folded = self.fold(function);
                table_columns(&folded, self.dialect).map(|it| (*function, folded, it))
            }
            _ => None,
        };
        let Some((function, folded, (columns, is_value))) = known else {
            let message = format!("the function {name} is not allowed in FROM");
            let names = match self.dialect {
                Dialect::Postgres => {
                    "these are: generate_series, unnest, json[b]_each, json[b]_array_elements"
                }
                Dialect::Sqlite => "these are: json_each, json_tree",
            };
            return Err(Refusal::new(NO_FUNCTION, message).hint(names).at(self.position(name)));
        };
        self.claim(function, Claim::Function)?;
        if folded == "generate_series" {
            self.generated = self.generated.saturating_mul(series::rows(arguments));
        }
        for argument in arguments {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    if folded == "generate_series" && !series::is_literal(expr) {
                        return Err(self
                            .unsupported("generate_series of what is no plain value", expr)
                            .hint(
                                "write whole numbers or times there, or pass them as parameters",
                            ));
                    }
                    self.expression(expr, scope, ctes)?;
                }
                _ => return Err(self.unsupported("this kind of argument", name)),
            }
        }
        let own = alias.map_or_else(|| folded.clone(), |alias| self.fold(&alias.name));
        let named: &[&str] = if columns.is_empty() { &[own.as_str()] } else { columns };
        let output = |name: &&str| Output { name: (*name).to_owned(), from: None };
        let mut columns: Vec<Output> = named.iter().map(output).collect();
        ordinality(&mut columns, with_ordinality);
        let is_value = is_value && !with_ordinality;
        let source = Source { name: Some(folded), columns: Some(columns), is_value };
        let source = self.renamed(source, alias)?;
        self.enter(scope, source, name)
    }

    /// Puts a source where its columns can be named.
    fn enter(
        &self,
        scope: &mut Scope<'_>,
        source: Source,
        of: &impl Begins,
    ) -> Result<Outputs, Refusal> {
        let columns = source.columns.clone();
        scope.sources.push(source);
        let known = scope.sources.iter().filter_map(|source| source.columns.as_ref());
        if known.map(Vec::len).sum::<usize>() > FROM_COLUMNS_MAX {
            let what = format!("has more than {FROM_COLUMNS_MAX} columns in one FROM");
            return Err(too_large(&what).at(self.position(of)));
        }
        Ok(columns)
    }

    pub(crate) fn expressions(
        &mut self,
        expressions: &[Expr],
        scope: &Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<(), Refusal> {
        expressions.iter().try_for_each(|expr| self.expression(expr, scope, ctes))
    }
}

pub(crate) fn identifiers(name: &ObjectName) -> Vec<&Ident> {
    let identifier = |part: &'_ ObjectNamePart| match part {
        ObjectNamePart::Identifier(_) => true,
        ObjectNamePart::Function(_) => false,
    };
    if !name.0.iter().all(identifier) {
        return Vec::new();
    }
    name.0.iter().filter_map(ObjectNamePart::as_ident).collect()
}

fn ordinality(columns: &mut Vec<Output>, with_ordinality: bool) {
    if with_ordinality {
        columns.push(Output { name: "ordinality".to_owned(), from: None });
    }
}

/// A name as it is the same as others: see `scope::is_named`.
fn same(name: &str, dialect: Dialect) -> String {
    match dialect {
        Dialect::Postgres => name.to_owned(),
        Dialect::Sqlite => name.to_ascii_lowercase(),
    }
}

fn both(left: Outputs, right: Outputs) -> Outputs {
    let (mut left, right) = (left?, right?);
    left.extend(right);
    Some(left)
}
