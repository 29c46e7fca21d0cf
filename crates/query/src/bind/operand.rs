//! What stands on a side of a comparison: a column, or a value.

use serde_json::Value as Json;
use sqlparser::ast::{
    CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, UnaryOperator, Value as Sql,
};

use super::kind::Kind;
use super::{Binder, array, cast};
use crate::caller::elements;
use crate::refusal::{NO_COLUMN, NOT_SUPPORTED, Refusal};
use crate::table::{Column, Dialect};
use crate::value::{Constant, Value};

/// A side, where it begins, and the collation that it was given.
#[derive(Debug, Clone)]
pub(crate) struct Side<'a> {
    pub(crate) operand: Operand<'a>,
    pub(crate) collation: Option<String>,
    pub(crate) position: Option<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum Operand<'a> {
    Column(&'a Column),
    Literal(Literal),
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    /// In quotes: of the type of what it is compared with. So are the caller's user, tenant and claims.
    Text(String),
    /// Digits, with a sign, a point and an exponent maybe.
    Number(String),
    Boolean(bool),
    /// PostgreSQL: of the type that it was cast to.
    Typed(Kind, Constant),
}

impl Literal {
    pub(crate) fn is_null(&self) -> bool {
        *self == Literal::Null
    }

    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Literal::Text(text) => Some(text),
            Literal::Typed(Kind::Text, Value::Text(text)) => Some(text),
            _ => None,
        }
    }
}

/// Words that are values of the database although they look like columns.
pub(crate) const VALUE_WORDS: [&str; 14] = [
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "localtime",
    "localtimestamp",
    "rowid",
    "session_user",
    "system_user",
    "user",
];

impl<'a> Binder<'a> {
    pub(super) fn operand(&mut self, expression: &Expr) -> Result<Side<'a>, Refusal> {
        let position = self.source.position_of(expression);
        let side = |operand| Ok(Side { operand, collation: None, position });
        let literal = |literal| side(Operand::Literal(literal));
        match expression {
            Expr::Nested(inner) => self.operand(inner),
            Expr::Identifier(name) => side(Operand::Column(self.column(name, position)?)),
            Expr::CompoundIdentifier(_) => {
                Err(self.unsupported(expression, "a column with its table before it"))
            }
            Expr::Value(value) => literal(self.literal(expression, &value.value)?),
            Expr::TypedString(typed) if self.table.dialect == Dialect::Postgres => {
                let Sql::SingleQuotedString(text) = &typed.value.value else {
                    return Err(self.unsupported(expression, "this way of writing a value"));
                };
                let cast = cast::cast(&Literal::Text(text.clone()), &typed.data_type);
                literal(cast.map_err(|refusal| refusal.at(position))?)
            }
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, ..
            } => self.cast(expression, expr, data_type),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                let negative = match self.operand(expr)?.operand {
                    Operand::Literal(literal) => negative(literal),
                    Operand::Column(_) => None,
                };
                literal(negative.ok_or_else(|| self.unsupported(expression, "arithmetic"))?)
            }
            Expr::UnaryOp { op: UnaryOperator::Plus, expr } => match self.operand(expr)?.operand {
                Operand::Literal(number @ Literal::Number(_)) => literal(number),
                _ => Err(self.unsupported(expression, "arithmetic")),
            },
            Expr::Collate { expr, collation } => {
                let inner = self.operand(expr)?;
                let collation = Some(collation_name(collation, self.table.dialect));
                Ok(Side { collation, ..inner })
            }
            Expr::Function(function) => literal(self.identity(expression, function)?),
            other => Err(self.unsupported(other, "this expression")),
        }
    }

    fn column(&mut self, name: &Ident, position: Option<usize>) -> Result<&'a Column, Refusal> {
        let quoted = name.quote_style.is_some();
        let folded = name.value.to_ascii_lowercase();
        if !quoted && VALUE_WORDS.contains(&folded.as_str()) {
            let message = format!("{folded} is a value of the database, not a column");
            let hint = format!(
                "put the column's name in quotes, \"{}\"; for who asks, use auth.user_id()",
                name.value
            );
            return Err(Refusal::new(NOT_SUPPORTED, message).hint(hint).at(position));
        }
        let table = self.table;
        let is_named = |column: &&Column| match table.dialect {
            Dialect::Postgres if quoted => column.name == name.value,
            Dialect::Postgres => column.name == folded,
            Dialect::Sqlite => column.name.eq_ignore_ascii_case(&name.value),
        };
        let found = table.columns.iter().enumerate().find(|(_, column)| is_named(column));
        let Some((at, column)) = found else {
            let message = format!("the table has no column {name}");
            return Err(Refusal::new(NO_COLUMN, message).at(position));
        };
        self.named[at] = true;
        Ok(column)
    }

    fn is_column(&self, name: &str) -> bool {
        self.table.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name))
    }

    fn literal(&self, expression: &Expr, value: &Sql) -> Result<Literal, Refusal> {
        Ok(match value {
            Sql::Null => Literal::Null,
            // A column may have this name in SQLite, and is meant then.
            Sql::Boolean(value) if self.is_column(&value.to_string()) => {
                return Err(self.unsupported(expression, "a column with the name of a truth"));
            }
            Sql::Boolean(value) => Literal::Boolean(*value),
            Sql::SingleQuotedString(text) => Literal::Text(text.clone()),
            Sql::Number(digits, false) => Literal::Number(digits.clone()),
            _ => return Err(self.unsupported(expression, "this way of writing a value")),
        })
    }

    fn cast(
        &mut self,
        expression: &Expr,
        inner: &Expr,
        data_type: &sqlparser::ast::DataType,
    ) -> Result<Side<'a>, Refusal> {
        if self.table.dialect == Dialect::Sqlite {
            let refusal = self.unsupported(expression, "a cast in SQLite");
            return Err(refusal.hint("write the value as what it is, 5 or '5'"));
        }
        let side = self.operand(inner)?;
        let Operand::Literal(literal) = &side.operand else {
            let refusal = self.unsupported(expression, "a cast of a column");
            return Err(refusal.hint("cast the value that it is compared with instead"));
        };
        let cast = cast::cast(literal, data_type).map_err(|refusal| refusal.at(side.position))?;
        Ok(Side { operand: Operand::Literal(cast), ..side })
    }

    /// The values of a claim that is a list, if that is what an expression is.
    pub(super) fn claimed_list(&self, expression: &Expr) -> Option<Vec<Literal>> {
        let Expr::Function(function) = expression else { return None };
        match self.caller.claim(self.claim_name(function)?) {
            list @ Some(Json::Array(_)) => elements(list, self.table.dialect).map(array::literals),
            _ => None,
        }
    }

    /// Which claim a call asks for.
    pub(super) fn claim_name<'f>(&self, function: &'f Function) -> Option<&'f str> {
        let FunctionArguments::List(list) = &function.args else { return None };
        let is_claim = function.name.to_string().eq_ignore_ascii_case("auth.claim");
        match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(name)))]
                if is_claim && is_plain_call(function) =>
            {
                match &name.value {
                    Sql::SingleQuotedString(name) => Some(name),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Who asks: `auth.user_id()`, `auth.host_id()`, `auth.claim('name')`.
    fn identity(&self, expression: &Expr, function: &Function) -> Result<Literal, Refusal> {
        let unknown = || {
            let name = &function.name;
            self.unsupported(expression, &format!("the function {name}"))
                .hint("these can be called: auth.user_id(), auth.host_id(), auth.claim('name')")
        };
        let text =
            |text: Option<&str>| text.map_or(Literal::Null, |text| Literal::Text(text.into()));
        if let Some(name) = self.claim_name(function) {
            return Ok(claim(self.caller.claim(name)));
        }
        let has_arguments =
            !matches!(&function.args, FunctionArguments::List(list) if list.args.is_empty());
        if has_arguments || !is_plain_call(function) {
            return Err(unknown());
        }
        match function.name.to_string().to_ascii_lowercase().as_str() {
            "auth.user_id" => Ok(text(self.caller.user_id())),
            "auth.host_id" => Ok(text(self.caller.host_id())),
            _ => Err(unknown()),
        }
    }
}

/// Whether a call has nothing but a name and arguments.
fn is_plain_call(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    function.filter.is_none()
        && function.over.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty()
        && function.parameters == FunctionArguments::None
        && list.duplicate_treatment.is_none()
        && list.clauses.is_empty()
}

/// A claim as text.
fn claim(value: Option<Json>) -> Literal {
    match value {
        None | Some(Json::Null) => Literal::Null,
        Some(Json::String(text)) => Literal::Text(text),
        Some(other) => Literal::Text(other.to_string()),
    }
}

fn negative(literal: Literal) -> Option<Literal> {
    match literal {
        Literal::Number(digits) => Some(Literal::Number(match digits.strip_prefix('-') {
            Some(positive) => positive.to_owned(),
            None => format!("-{digits}"),
        })),
        _ => None,
    }
}

/// The name of a collation as the database understands it.
pub(crate) fn collation_name(name: &ObjectName, dialect: Dialect) -> String {
    match (name.0.as_slice(), dialect) {
        ([ObjectNamePart::Identifier(name)], Dialect::Sqlite) => name.value.to_ascii_uppercase(),
        ([ObjectNamePart::Identifier(name)], _) if name.quote_style.is_some() => name.value.clone(),
        _ => name.to_string().to_ascii_lowercase(),
    }
}
