//! Expressions: those of a list, and whatever is in them.

use sqlparser::ast::{
    AccessExpr, Array, CastKind, CeilFloorKind, DataType, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentClause, FunctionArguments, NamedWindowDefinition,
    NamedWindowExpr, OrderByExpr, Subscript, Value, WindowFrameBound, WindowSpec, WindowType,
};

use super::from::identifiers;
use super::functions::{Callable, callable, names, time_argument};
use super::scope::Scope;
use super::select::{Ctes, NameScope};
use super::walk::{Claim, Walk};
use super::words;
use crate::refusal::{NO_FUNCTION, Refusal};
use crate::table::Dialect;
use tidewire_suggest::nearest;

/// Whether something is looked for by an operator, or something larger is made.
fn is_bounded(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Like { .. }
            | Expr::ILike { .. }
            | Expr::SimilarTo { .. }
            | Expr::BinaryOp { .. }
            | Expr::Cast { .. }
    )
}

impl Walk<'_> {
    pub(crate) fn expression(
        &mut self,
        expr: &Expr,
        scope: &Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<(), Refusal> {
        // Chains lean to the left as deep as they are long, and what follows a value as well.
        let mut rest = expr;
        // What searches is looked at when it is known what all names in it are.
        let mut searches = Vec::new();
        loop {
            if is_bounded(rest) {
                searches.push(rest);
            }
            rest = match rest {
                // Where it stands before a claim, it has become IN.
                Expr::AnyOp { .. } | Expr::AllOp { .. }
                    if self.dialect == Dialect::Sqlite && self.known.is_some() =>
                {
                    return Err(self
                        .unsupported("ANY or ALL on SQLite", rest)
                        .hint("write the values, IN ($1, $2), look through an array, id IN (SELECT value FROM json_each($1)), or \
                               compare with auth.claim('…')"));
                }
                Expr::BinaryOp { left, right, .. }
                | Expr::IsDistinctFrom(left, right)
                | Expr::IsNotDistinctFrom(left, right)
                | Expr::AnyOp { left, right, .. }
                | Expr::AllOp { left, right, .. }
                | Expr::AtTimeZone { timestamp: left, time_zone: right } => {
                    self.expression(right, scope, ctes)?;
                    left
                }
                Expr::IsFalse(inner)
                | Expr::IsNotFalse(inner)
                | Expr::IsTrue(inner)
                | Expr::IsNotTrue(inner)
                | Expr::IsNull(inner)
                | Expr::IsNotNull(inner)
                | Expr::IsUnknown(inner)
                | Expr::IsNotUnknown(inner)
                | Expr::Nested(inner)
                | Expr::UnaryOp { expr: inner, .. } => inner,
                Expr::InList { expr, list, .. } => {
                    self.expressions(list, scope, ctes)?;
                    expr
                }
                Expr::Between { expr, low, high, .. } => {
                    self.expression(low, scope, ctes)?;
                    self.expression(high, scope, ctes)?;
                    expr
                }
                Expr::Like { any: false, expr, pattern, escape_char, .. }
                | Expr::ILike { any: false, expr, pattern, escape_char, .. }
                | Expr::SimilarTo { expr, pattern, escape_char, .. } => {
                    self.expression(pattern, scope, ctes)?;
                    self.optional(escape_char.as_deref(), scope, ctes)?;
                    expr
                }
                Expr::InSubquery { expr, subquery, .. } => {
                    self.query(subquery, NameScope { scope: Some(scope), ctes })?;
                    expr
                }
                Expr::Cast {
                    kind: CastKind::Cast | CastKind::DoubleColon,
                    expr: inner,
                    data_type,
                    format: None,
                    ..
                } => {
                    self.data_type(rest, data_type)?;
                    inner
                }
                Expr::Collate { expr, collation } => {
                    for part in identifiers(collation) {
                        self.claim(part, Claim::Name)?;
                    }
                    expr
                }
                Expr::CompoundFieldAccess { root, access_chain } => {
                    for access in access_chain {
                        self.access(rest, access, scope, ctes)?;
                    }
                    root
                }
                other => {
                    self.single(other, scope, ctes)?;
                    return searches.into_iter().rev().try_for_each(|expr| self.searched(expr));
                }
            };
        }
    }

    /// Bounds what a text is searched for by an operator, and what is made by one.
    fn searched(&mut self, expr: &Expr) -> Result<(), Refusal> {
        match expr {
            Expr::Like { expr, pattern, negated, .. } => {
                self.search_by_word((expr, pattern), &["like"], *negated)
            }
            Expr::ILike { expr, pattern, negated, .. } => {
                self.search_by_word((expr, pattern), &["ilike"], *negated)
            }
            Expr::SimilarTo { expr, pattern, negated, .. } => {
                self.search_by_word((expr, pattern), &["to"], *negated)
            }
            Expr::BinaryOp { left, op, right } => {
                self.search_by_operator(left, op, right)?;
                self.grows_by_operator(expr, (left, op, right))
            }
            Expr::Cast { expr, data_type, .. } => self.grows_by_cast(expr, data_type),
            _ => Ok(()),
        }
    }

    fn single(&mut self, expr: &Expr, scope: &Scope<'_>, ctes: &Ctes<'_>) -> Result<(), Refusal> {
        let around = NameScope { scope: Some(scope), ctes };
        match expr {
            Expr::Identifier(name) => self.column(std::slice::from_ref(name), scope),
            Expr::CompoundIdentifier(parts) => self.column(parts, scope),
            Expr::Value(value) => match &value.value {
                Value::Number(digits, false) => self.number_is_short(digits, expr),
                Value::SingleQuotedString(_) | Value::Boolean(_) | Value::Null => Ok(()),
                _ => Err(self.unsupported("this way of writing a value", expr)),
            },
            Expr::Extract { expr: inner, .. } => self.expression(inner, scope, ctes),
            Expr::Position { expr: left, r#in: right } => {
                self.expression(left, scope, ctes)?;
                self.expression(right, scope, ctes)?;
                self.search_by_position(expr, (left, right))
            }
            Expr::Exists { subquery, .. } | Expr::Subquery(subquery) => {
                self.query(subquery, around).map(|_| ())
            }
            Expr::Case { operand, conditions, else_result, .. } => {
                self.optional(operand.as_deref(), scope, ctes)?;
                for when in conditions {
                    self.expression(&when.condition, scope, ctes)?;
                    self.expression(&when.result, scope, ctes)?;
                }
                self.optional(else_result.as_deref(), scope, ctes)
            }
            Expr::Tuple(list) | Expr::Array(Array { elem: list, .. }) => {
                self.expressions(list, scope, ctes)
            }
            Expr::GroupingSets(sets) | Expr::Rollup(sets) | Expr::Cube(sets) => {
                sets.iter().try_for_each(|set| self.expressions(set, scope, ctes))
            }
            Expr::Function(function) => self.function(expr, function, scope, ctes),
            _ => self.special(expr, scope, ctes),
        }
    }

    /// Those that have a grammar of their own.
    fn special(&mut self, expr: &Expr, scope: &Scope<'_>, ctes: &Ctes<'_>) -> Result<(), Refusal> {
        match expr {
            Expr::TypedString(typed) if !typed.uses_odbc_syntax => {
                self.data_type(expr, &typed.data_type)
            }
            Expr::Interval(interval) => match interval.value.as_ref() {
                Expr::Value(_) => Ok(()),
                _ => Err(self.unsupported("an INTERVAL of an expression", expr)),
            },
            Expr::Ceil { expr: inner, field } | Expr::Floor { expr: inner, field } => {
                let plain = matches!(
                    field,
                    CeilFloorKind::DateTimeField(sqlparser::ast::DateTimeField::NoDateTime)
                );
                if !plain || self.dialect == Dialect::Sqlite {
                    return Err(self.unsupported("this kind of CEIL or FLOOR", expr));
                }
                self.expression(inner, scope, ctes)
            }
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                self.expression(expr, scope, ctes)?;
                self.search_by_substring(substring_from.as_deref())?;
                self.optional(substring_from.as_deref(), scope, ctes)?;
                self.optional(substring_for.as_deref(), scope, ctes)
            }
            Expr::Trim { trim_what, expr: text, trim_characters, .. } => {
                let characters = trim_characters.as_deref().unwrap_or_default();
                self.optional(trim_what.as_deref(), scope, ctes)?;
                self.expressions(characters, scope, ctes)?;
                self.expression(text, scope, ctes)?;
                let set = trim_what.as_deref().or(characters.first());
                self.search_by_trim(expr, text, set)
            }
            Expr::Overlay { expr: text, overlay_what, overlay_from, overlay_for } => {
                self.expression(text, scope, ctes)?;
                self.expression(overlay_what, scope, ctes)?;
                self.expression(overlay_from, scope, ctes)?;
                self.optional(overlay_for.as_deref(), scope, ctes)?;
                self.grows_by_overlay(expr, (text, overlay_what))
            }
            _ => Err(self.unsupported("this expression", expr)),
        }
    }

    /// `a[1]`, `a[1:2]`. A field, `(a).b`, might be a call of the function `b`.
    fn access(
        &mut self,
        expr: &Expr,
        access: &AccessExpr,
        scope: &Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<(), Refusal> {
        match access {
            AccessExpr::Subscript(Subscript::Index { index }) => {
                self.expression(index, scope, ctes)
            }
            AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None }) => {
                self.optional(lower_bound.as_ref(), scope, ctes)?;
                self.optional(upper_bound.as_ref(), scope, ctes)
            }
            _ => Err(self.unsupported("a field of a value", expr)),
        }
    }

    fn optional(
        &mut self,
        expr: Option<&Expr>,
        scope: &Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<(), Refusal> {
        expr.map_or(Ok(()), |expr| self.expression(expr, scope, ctes))
    }

    /// Types that the parser knows are checked as words; those it does not know are checked here.
    fn data_type(&mut self, expr: &Expr, data_type: &DataType) -> Result<(), Refusal> {
        match data_type {
            DataType::Custom(name, _) => {
                let parts = identifiers(name);
                let [word] = parts.as_slice() else {
                    return Err(self.unsupported(&format!("the type {name}"), expr));
                };
                let folded = self.fold(word);
                if words::is_catalog_type(&folded) {
                    return Err(self.catalog_type(expr, data_type));
                }
                let is_of_column = self.known.is_none_or(|known| {
                    let columns = known.iter().flat_map(|known| {
                        known.visible.iter().map(|at| &known.shape.columns[*at].column)
                    });
                    let mut types =
                        columns.map(|column| column.type_name.rsplit(['.', ' ']).next());
                    types.any(|name| name == Some(folded.as_str()))
                });
                if !is_of_column && !words::is_known_type(&folded, self.dialect) {
                    return Err(self.unsupported(&format!("the type {name}"), expr));
                }
                self.claim(word, Claim::Name).map(|_| ())
            }
            DataType::Array(sqlparser::ast::ArrayElemTypeDef::SquareBracket(inner, _)) => {
                self.data_type(expr, inner)
            }
            DataType::Regclass => Err(self.catalog_type(expr, data_type)),
            _ => Ok(()),
        }
    }

    /// Even if a column that is seen has the type.
    fn catalog_type(&self, expr: &Expr, data_type: &DataType) -> Refusal {
        self.unsupported(
            &format!("a cast to {data_type}, which asks the database's catalog,"),
            expr,
        )
        .hint("compare such a column with its number, or cast the column to text")
    }

    fn function(
        &mut self,
        expr: &Expr,
        function: &Function,
        scope: &Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<(), Refusal> {
        let name = self.callee(expr, function)?;
        let around = NameScope { scope: Some(scope), ctes };
        let list = match &function.args {
            FunctionArguments::List(list) => list,
            FunctionArguments::Subquery(query)
                if name == "array" && self.dialect == Dialect::Postgres =>
            {
                return self.query(query, around).map(|_| ());
            }
            _ => return Err(self.unsupported("this call", expr)),
        };
        let plain = function.parameters == FunctionArguments::None
            && !function.uses_odbc_syntax
            && function.null_treatment.is_none();
        if !plain {
            return Err(self.unsupported("this kind of call", expr));
        }
        for argument in &list.args {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    self.expression(expr, scope, ctes)?;
                }
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if name == "count" => {}
                _ => {
                    return Err(self
                        .unsupported("this kind of argument", expr)
                        .hint("name the columns"));
                }
            }
        }
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::OrderBy(keys) => self.keys(keys, scope, ctes)?,
                _ => return Err(self.unsupported("this in a call", expr)),
            }
        }
        self.pure(expr, &name, &list.args)?;
        self.search_by_call(&name, function)?;
        self.grows_by_call(expr, &name, function)?;
        self.optional(function.filter.as_deref(), scope, ctes)?;
        self.keys(&function.within_group, scope, ctes)?;
        match &function.over {
            None => Ok(()),
            Some(over) => {
                self.window = self.window.or_else(|| self.position(expr));
                match over {
                    WindowType::WindowSpec(spec) => self.window_spec(spec, scope, ctes),
                    WindowType::NamedWindow(name) => self.claim(name, Claim::Name).map(|_| ()),
                }
            }
        }
    }

    /// The function that is called, if it may be.
    fn callee(&mut self, expr: &Expr, function: &Function) -> Result<String, Refusal> {
        let parts = identifiers(&function.name);
        let written = function.name.to_string();
        let (name, is_qualified) = match parts.as_slice() {
            [name] => (*name, false),
            [schema, name]
                if self.dialect == Dialect::Postgres && self.fold(schema) == "pg_catalog" =>
            {
                self.claim(schema, Claim::Name)?;
                (*name, true)
            }
            _ => return Err(self.not_allowed(&written, expr)),
        };
        let folded = self.fold(name);
        let is_array = folded == "array"
            && self.dialect == Dialect::Postgres
            && matches!(function.args, FunctionArguments::Subquery(_));
        let claim = match callable(&folded, self.dialect) {
            _ if matches!(function.args, FunctionArguments::None) => {
                return Err(self.not_allowed(&folded, expr));
            }
            Some(Callable::Function) if !is_qualified => Claim::Function,
            Some(Callable::Function) => Claim::Name,
            Some(Callable::Grammar) if !is_qualified => Claim::Name,
            None if is_array => Claim::Name,
            _ => return Err(self.not_allowed(&written, expr)),
        };
        self.claim(name, claim)?;
        Ok(folded)
    }

    fn not_allowed(&self, name: &str, expr: &Expr) -> Refusal {
        let lower = name.to_ascii_lowercase();
        let refusal = Refusal::new(
            NO_FUNCTION,
            format!("the function {name} is not allowed in a live query"),
        )
        .at(self.position(expr));
        if words::MOMENTS.contains(&lower.as_str()) {
            return refusal.hint("pass the time as a parameter");
        }
        if lower == "current_user" || lower == "user" || lower == "session_user" {
            return refusal.hint("write CURRENT_USER() or auth.user_id() for who asks");
        }
        match nearest(&lower, names(self.dialect)) {
            Some(near) if near != lower => refusal.hint(format!("did you mean {near}?")),
            _ => refusal.hint("PROTOCOL.md lists the functions that are"),
        }
    }

    /// Refuses calls that would ask the clock although the function's name does not say so.
    fn pure(&self, expr: &Expr, name: &str, arguments: &[FunctionArg]) -> Result<(), Refusal> {
        let asks_the_clock = match self.dialect {
            Dialect::Postgres => name == "age" && arguments.len() != 2,
            Dialect::Sqlite => time_argument(name).is_some_and(|before| {
                let is_word = |argument: &FunctionArg| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => {
                        matches!(&value.value, Value::SingleQuotedString(text)
                            if ["now", "localtime", "utc", "subsec", "subsecond"]
                                .contains(&text.trim().to_ascii_lowercase().as_str()))
                    }
                    _ => false,
                };
                arguments.len() <= before || arguments.iter().any(is_word)
            }),
        };
        if asks_the_clock {
            let message = format!("{name} called like this asks the clock");
            return Err(Refusal::new(NO_FUNCTION, message)
                .hint("pass the time as a parameter")
                .at(self.position(expr)));
        }
        Ok(())
    }

    fn keys(
        &mut self,
        keys: &[OrderByExpr],
        scope: &Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<(), Refusal> {
        for key in keys {
            if key.with_fill.is_some() {
                return Err(self.unsupported("WITH FILL", &key.expr));
            }
            self.expression(&key.expr, scope, ctes)?;
        }
        Ok(())
    }

    pub(crate) fn named_window(
        &mut self,
        window: &NamedWindowDefinition,
        scope: &Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<(), Refusal> {
        let NamedWindowDefinition(name, definition) = window;
        let at = self.claim(name, Claim::Name)?;
        self.window = self.window.or(Some(self.pieces[at].at));
        match definition {
            NamedWindowExpr::WindowSpec(spec) => self.window_spec(spec, scope, ctes),
            NamedWindowExpr::NamedWindow(name) => self.claim(name, Claim::Name).map(|_| ()),
        }
    }

    fn window_spec(
        &mut self,
        spec: &WindowSpec,
        scope: &Scope<'_>,
        ctes: &Ctes<'_>,
    ) -> Result<(), Refusal> {
        if let Some(name) = &spec.window_name {
            self.claim(name, Claim::Name)?;
        }
        self.expressions(&spec.partition_by, scope, ctes)?;
        self.keys(&spec.order_by, scope, ctes)?;
        if let Some(frame) = &spec.window_frame {
            for bound in [Some(&frame.start_bound), frame.end_bound.as_ref()].into_iter().flatten()
            {
                if let WindowFrameBound::Preceding(Some(expr))
                | WindowFrameBound::Following(Some(expr)) = bound
                {
                    self.expression(expr, scope, ctes)?;
                }
            }
        }
        Ok(())
    }
}
