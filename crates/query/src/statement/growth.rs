//! What makes larger values of smaller ones is measured where it does: a text that is put together with itself
//! some thirty times, by a recursive query, fills the memory, and every function that it reaches then takes long
//! where no deadline interrupts it.
//!
//! Nothing is cut off: what is too large is an error when it is run. A value that is made of a few stored ones
//! and of what is written in the query is not measured, because it is not much larger than they are.

use sqlparser::ast::{BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr};
use sqlparser::ast::{FunctionArguments, Value};
use sqlparser::tokenizer::{Token, Word};

use super::begins::Begins;
use super::extent::{Extent, is};
use super::from::identifiers;
use super::functions::{self, AGGREGATES, GATHERING, ResultSize, SMALL};
use super::search::Size;
use super::walk::{Claim, Walk};
use super::wrap::{Wrap, Wrapped};
use crate::refusal::{Refusal, TOO_LARGE};
use crate::table::Dialect;

/// Stored values that are put together by operators without a measure, at most, and by a call.
const PARTS_MAX: usize = 8;
const CALL_PARTS_MAX: usize = 16;
/// And in all of a statement: those of one row are in memory at the same time.
pub(super) const SPARED_MAX: usize = 64;
/// Characters of a literal that is nothing to speak of.
const LITERAL_CHARS_MAX: usize = 4_096;
/// Digits of a number that is written in a query, at most.
const DIGITS_MAX: usize = 1_000;
/// Places at which a cast may be that are looked at, at most.
const CASTS_LOOKED_AT: usize = 8;
/// Operands that are put together without a measure, at most, where there is no way to have one.
const UNMEASURED_MAX: usize = 4;

/// An aggregate that keeps what it is given until it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CollectingAggregate {
    /// The call up to its parenthesis.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The condition of its own filter.
    pub(crate) filter: Option<Extent>,
    /// What it is given.
    pub(crate) values: Vec<Extent>,
    /// What it is given is too much to be written twice.
    pub(crate) once: bool,
}

/// Where a call is.
struct Call {
    from: usize,
    /// Its closing parenthesis.
    close: usize,
    arguments: Vec<Extent>,
    filter: Option<Extent>,
    /// Behind all that belongs to it.
    to: usize,
}

impl Walk<'_> {
    fn measures_growth(&self) -> bool {
        self.of_client && self.known.is_some()
    }

    /// Whether so many stored values may be put together without a measure.
    fn spares(&mut self, parts: Option<usize>, max: usize) -> bool {
        let Some(parts) = parts.filter(|parts| *parts <= max) else { return false };
        self.spared += parts;
        parts == 0 || !self.spares_none
    }

    /// `a || b`, `a * b`, `a ^ b`.
    pub(crate) fn grows_by_operator(
        &mut self,
        expr: &Expr,
        (left, op, right): (&Expr, &BinaryOperator, &Expr),
    ) -> Result<(), Refusal> {
        let (sign, parts) = match op {
            BinaryOperator::StringConcat => {
                self.made += 1;
                (Token::StringConcat, self.parts(expr))
            }
            BinaryOperator::Multiply if self.dialect == Dialect::Postgres => {
                (Token::Mul, self.number_parts(expr))
            }
            BinaryOperator::PGExp if self.dialect == Dialect::Postgres => (Token::Caret, None),
            _ => return Ok(()),
        };
        let is_spared = match op {
            BinaryOperator::StringConcat => self.spares(parts, PARTS_MAX),
            _ => parts.is_some_and(|parts| parts <= PARTS_MAX),
        };
        if !self.measures_growth() || is_spared {
            return Ok(());
        }
        self.has_room_for_one_more(expr)?;
        let operator = self.operator_before(right, |token| *token == sign);
        let extent = operator.and_then(|operator| {
            let (from, _) = self.extent_before(left, operator)?;
            let (_, to) = self.extent_behind(right, operator)?;
            Some((from, to))
        });
        let extent = extent.ok_or_else(|| self.unmeasured(expr))?;
        let kind = match op {
            BinaryOperator::StringConcat if self.is_text(expr) => Wrapped::Text,
            BinaryOperator::StringConcat => Wrapped::Grown,
            _ => Wrapped::Number,
        };
        if self.may_wrap(extent, kind) {
            self.put(Wrap { from: extent.0, to: extent.1, kind });
        } else if operands(expr, op) > UNMEASURED_MAX {
            return Err(self.unmeasured(expr));
        }
        Ok(())
    }

    /// What is read as a number may have as many digits as numbers can have.
    pub(crate) fn grows_by_cast(
        &mut self,
        inner: &Expr,
        data_type: &DataType,
    ) -> Result<(), Refusal> {
        self.made += 1;
        if !self.measures_growth() || self.dialect == Dialect::Sqlite || !is_decimal(data_type) {
            return Ok(());
        }
        let is_short = match self.size(inner) {
            Size::Literal(chars) => chars <= DIGITS_MAX,
            _ => self.number_parts(inner).is_some_and(|parts| parts <= PARTS_MAX),
        };
        if is_short {
            return Ok(());
        }
        self.has_room_for_one_more(inner)?;
        let (from, to) = self.cast_operand(inner).ok_or_else(|| self.unmeasured(inner))?;
        if self.may_wrap((from, to), Wrapped::Number) {
            self.put(Wrap { from, to, kind: Wrapped::Number });
        }
        Ok(())
    }

    /// `overlay(text PLACING other FROM 2)`.
    pub(crate) fn grows_by_overlay(
        &mut self,
        call: &Expr,
        (text, other): (&Expr, &Expr),
    ) -> Result<(), Refusal> {
        self.made += 1;
        let parts = self.parts(text).zip(self.parts(other)).map(|(one, other)| one + other);
        if !self.measures_growth() || self.spares(parts, PARTS_MAX) {
            return Ok(());
        }
        self.has_room_for_one_more(call)?;
        let open = self.call_around("overlay", call, text);
        let close = open.and_then(|open| Some((open - 1, self.arguments(open, &[])?.last()?.1)));
        let (from, close) = close.ok_or_else(|| self.unmeasured(call))?;
        if !self.may_wrap((from, close + 1), Wrapped::Grown) {
            return Err(self.unmeasured(call));
        }
        self.put(Wrap { from, to: close + 1, kind: Wrapped::Grown });
        Ok(())
    }

    /// A call of one of the functions whose result may be larger than what they are given.
    pub(crate) fn grows_by_call(
        &mut self,
        expr: &Expr,
        name: &str,
        function: &Function,
    ) -> Result<(), Refusal> {
        self.made += 1;
        let Some(made) = functions::made(name, self.dialect) else { return Ok(()) };
        if !self.measures_growth() {
            return Ok(());
        }
        let arguments = arguments(function);
        let parts: Option<usize> = match made {
            ResultSize::AllRows | ResultSize::Number => None,
            ResultSize::Pretty => None,
            ResultSize::Replaced if !may_lengthen(&arguments) => return Ok(()),
            ResultSize::Replaced => None,
            ResultSize::Text | ResultSize::Value => arguments.iter().map(|it| self.parts(it)).sum(),
        };
        if self.spares(parts, CALL_PARTS_MAX) {
            return Ok(());
        }
        self.has_room_for_one_more(expr)?;
        let call = self.call(function).ok_or_else(|| self.unmeasured(expr))?;
        if GATHERING.contains(&name) && self.dialect == Dialect::Postgres {
            self.gather(expr, &call, &arguments, function)?;
        }
        let kind = match made {
            ResultSize::Text | ResultSize::Replaced | ResultSize::Pretty => Wrapped::Text,
            ResultSize::AllRows if name == "string_agg" => Wrapped::Text,
            ResultSize::Value | ResultSize::AllRows => Wrapped::Grown,
            ResultSize::Number => Wrapped::Number,
        };
        if self.may_wrap((call.from, call.to), kind) {
            self.put(Wrap { from: call.from, to: call.to, kind });
        }
        Ok(())
    }

    /// A number as it is written.
    pub(crate) fn number_is_short(&self, digits: &str, expr: &Expr) -> Result<(), Refusal> {
        if !self.of_client || digits.len() <= DIGITS_MAX {
            return Ok(());
        }
        let message = format!("a number has more than {DIGITS_MAX} digits");
        Err(Refusal::new(TOO_LARGE, message).at(self.position(expr)))
    }

    fn gather(
        &mut self,
        expr: &Expr,
        call: &Call,
        arguments: &[&Expr],
        function: &Function,
    ) -> Result<(), Refusal> {
        let mut values = Vec::new();
        let mut has_distinct = false;
        for (argument, (mut from, to)) in arguments.iter().zip(call.arguments.iter().copied()) {
            if ["distinct", "all"].iter().any(|word| is(&self.pieces[from].token, word)) {
                has_distinct |= is(&self.pieces[from].token, "distinct");
                from += 1;
            }
            if !self.is_exactly((from, to), argument) {
                return Err(self.unmeasured(expr));
            }
            values.push((from, to));
        }
        let has_query = |(from, to): &Extent| {
            self.pieces[*from..*to].iter().any(|piece| is(&piece.token, "select"))
        };
        let once = values.iter().any(has_query);
        let has_order = arguments.len() < call.arguments.len();
        let is_of_groups = values.iter().any(|extent| self.has_aggregate(*extent));
        if once && (has_distinct && has_order || is_of_groups || function.over.is_some()) {
            return Err(self.unmeasured(expr));
        }
        let (from, to, filter) = (call.from, call.close + 1, call.filter);
        let gathered = CollectingAggregate { from, to, filter, values, once };
        if !self.gathered.contains(&gathered) {
            self.gathered.push(gathered);
        }
        Ok(())
    }

    fn unmeasured(&self, expr: &Expr) -> Refusal {
        self.unsupported("a value that may become large, written this way,", expr)
            .hint("compute it in WITH or a subquery, and use its column")
    }

    /// Whether tokens may stand where they are measured. A subquery does so for values of any type; a window's
    /// values cannot be within it, and an aggregate of no column would be one of no rows.
    fn may_wrap(&self, (from, to): Extent, kind: Wrapped) -> bool {
        if self.dialect == Dialect::Sqlite || kind == Wrapped::Text {
            return true;
        }
        let mut queries = Vec::new();
        for at in from..to {
            match &self.pieces[at].token {
                Token::LParen => {
                    let next = self.pieces.get(at + 1).map(|next| &next.token);
                    queries.push(next.is_some_and(|next| is(next, "select") || is(next, "with")));
                }
                Token::RParen => {
                    queries.pop();
                }
                Token::Word(Word { value, .. }) if !queries.contains(&true) => {
                    let lower = value.to_ascii_lowercase();
                    let next = self.pieces.get(at + 1).map(|next| &next.token);
                    let is_call = next == Some(&Token::LParen);
                    let is_aggregate = is_call && AGGREGATES.contains(&lower.as_str());
                    if lower == "over" || is_aggregate && !self.is_of_columns(at + 1) {
                        return false;
                    }
                }
                _ => {}
            }
        }
        true
    }

    /// Whether a column is among the arguments of a call.
    fn is_of_columns(&self, open: usize) -> bool {
        let parts = self.arguments(open, &[]).unwrap_or_default();
        let is_column = |claim: &Claim| matches!(claim, Claim::Column { .. } | Claim::OtherColumn);
        parts.into_iter().any(|(from, to)| self.claims[from..to].iter().any(is_column))
    }

    /// How many stored values a value is made of; none if it may be larger than they are together.
    fn parts(&self, expr: &Expr) -> Option<usize> {
        let (mut rest, mut total) = (expr, 0);
        loop {
            rest = match rest {
                Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => inner,
                Expr::Cast { data_type, .. } if is_small(data_type) => return Some(total),
                Expr::Cast { expr, .. } => expr,
                Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } => {
                    total += self.parts(right)?;
                    left
                }
                Expr::BinaryOp { op, .. } if is_small_operator(op) => return Some(total),
                Expr::IsNull(_)
                | Expr::IsNotNull(_)
                | Expr::Exists { .. }
                | Expr::Extract { .. }
                | Expr::Position { .. }
                | Expr::Like { .. }
                | Expr::ILike { .. }
                | Expr::Between { .. }
                | Expr::InList { .. }
                | Expr::UnaryOp { .. }
                | Expr::Interval(_)
                | Expr::Ceil { .. }
                | Expr::Floor { .. } => return Some(total),
                Expr::Function(function) if self.is_one_of(function, SMALL) => return Some(total),
                Expr::Function(function)
                    if self.is_one_of(function, &["concat", "concat_ws", "coalesce"]) =>
                {
                    let arguments = arguments(function);
                    let parts: Option<usize> = arguments.iter().map(|it| self.parts(it)).sum();
                    return parts.map(|parts| total + parts);
                }
                other => {
                    return match self.size(other) {
                        Size::Literal(chars) if chars <= LITERAL_CHARS_MAX => Some(total),
                        Size::Literal(_) | Size::Stored => Some(total + 1),
                        Size::Computed => None,
                    };
                }
            };
        }
    }

    /// How many stored or written numbers a number is made of; none if it may have more digits than they have.
    fn number_parts(&self, expr: &Expr) -> Option<usize> {
        const KEEPING: &[&str] = &[
            "sum", "avg", "min", "max", "abs", "round", "trunc", "ceil", "ceiling", "floor",
            "sign", "coalesce", "nullif", "greatest", "least", "mod", "div", "sqrt", "ln", "log",
            "log10",
        ];
        let (mut rest, mut total) = (expr, 0);
        loop {
            rest = match rest {
                Expr::Nested(inner)
                | Expr::UnaryOp { expr: inner, .. }
                | Expr::Ceil { expr: inner, .. }
                | Expr::Floor { expr: inner, .. } => inner,
                Expr::BinaryOp { left, op, right } if is_arithmetic(op) => {
                    total += self.number_parts(right)?;
                    left
                }
                Expr::BinaryOp { op, .. } if is_small_operator(op) => return Some(total + 1),
                Expr::Value(_)
                | Expr::TypedString(_)
                | Expr::Interval(_)
                | Expr::Extract { .. }
                | Expr::Position { .. } => return Some(total + 1),
                // It is measured where it is cast.
                Expr::Cast { data_type, .. } if is_small(data_type) || is_decimal(data_type) => {
                    return Some(total + 1);
                }
                Expr::Function(function) if self.is_one_of(function, SMALL) => {
                    return Some(total + 1);
                }
                Expr::Function(function) if self.is_one_of(function, KEEPING) => {
                    let arguments = arguments(function);
                    let parts: Option<Vec<usize>> =
                        arguments.iter().map(|it| self.number_parts(it)).collect();
                    return parts.map(|parts| total + parts.into_iter().max().unwrap_or(0) + 1);
                }
                Expr::Function(function) => {
                    let name = identifiers(&function.name).last().map(|name| self.fold(name));
                    let made = functions::made(name.as_deref()?, self.dialect);
                    return (made == Some(ResultSize::Number)).then_some(total + 1);
                }
                Expr::Case { conditions, else_result, .. } => {
                    let results = conditions.iter().map(|when| &when.result);
                    let results = results.chain(else_result.as_deref());
                    let parts: Option<Vec<usize>> =
                        results.map(|result| self.number_parts(result)).collect();
                    return parts.map(|parts| total + parts.into_iter().max().unwrap_or(0));
                }
                other => return (self.size(other) == Size::Stored).then_some(total + 1),
            };
        }
    }

    fn is_one_of(&self, function: &Function, names: &[&str]) -> bool {
        let name = identifiers(&function.name).last().map(|name| self.fold(name));
        name.is_some_and(|name| names.contains(&name.as_str()))
    }

    /// Whether texts are put together for certain: an array is so as well, and a document.
    fn is_text(&self, expr: &Expr) -> bool {
        if self.dialect == Dialect::Sqlite {
            return true;
        }
        let mut rest = expr;
        while let Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } = rest {
            if !self.is_one_text(right) && !is_string(right) {
                return false;
            }
            rest = left;
        }
        self.is_one_text(rest)
    }

    fn is_one_text(&self, expr: &Expr) -> bool {
        const TEXTS: &[&str] = &[
            "concat",
            "concat_ws",
            "initcap",
            "lower",
            "md5",
            "regexp_replace",
            "replace",
            "split_part",
            "string_agg",
            "to_char",
            "translate",
            "upper",
        ];
        match expr {
            Expr::Nested(inner) => self.is_text(inner),
            Expr::Cast { data_type, .. } => {
                matches!(data_type, DataType::Text | DataType::Varchar(_))
            }
            Expr::BinaryOp {
                op: BinaryOperator::LongArrow | BinaryOperator::HashLongArrow,
                ..
            } => true,
            Expr::Function(function) => self.is_one_of(function, TEXTS),
            Expr::Identifier(name) => self.is_text_column(self.token(name.span)),
            Expr::CompoundIdentifier(parts) => {
                self.is_text_column(parts.last().and_then(|name| self.token(name.span)))
            }
            _ => false,
        }
    }

    fn is_text_column(&self, at: Option<usize>) -> bool {
        let (Some(at), Some(known)) = (at, self.known) else { return false };
        let Claim::Column { occurrence, column, .. } = self.claims[at] else { return false };
        let shape = &known[self.occurrences[occurrence].table].shape;
        let type_name = shape.columns[column].column.type_name.as_str();
        matches!(type_name, "text" | "varchar")
    }

    /// The tokens of a call, and of what belongs to it.
    fn call(&self, function: &Function) -> Option<Call> {
        let names = identifiers(&function.name);
        let from = self.token(names.first()?.span)?;
        let open = self.token(names.last()?.span)? + 1;
        let arguments = self.arguments(open, &["order"])?;
        let close = arguments.last()?.1;
        let (mut to, mut filter) = (close + 1, None);
        let token = |at: usize| self.pieces.get(at).map(|piece| &piece.token);
        if function.filter.is_some() {
            let end = self.arguments(to + 1, &[])?.last()?.1;
            filter =
                Some((to + 3, end)).filter(|_| token(to + 2).is_some_and(|it| is(it, "where")));
            filter?;
            to = end + 1;
        }
        if function.over.is_some() {
            to = match token(to + 1)? {
                Token::LParen => self.arguments(to + 1, &[])?.last()?.1 + 1,
                _ => to + 2,
            };
        }
        Some(Call { from, close, arguments, filter, to })
    }

    /// What is cast: `x::numeric`, `CAST(x AS numeric)`.
    fn cast_operand(&self, inner: &Expr) -> Option<Extent> {
        let near = self.token(inner.begins()?)?;
        let is_cast = |at: &usize| {
            let token = &self.pieces[*at].token;
            *token == Token::DoubleColon || is(token, "as")
        };
        let casts = (near + 1..self.pieces.len()).filter(is_cast).take(CASTS_LOOKED_AT);
        casts.into_iter().find_map(|at| self.extent_before(inner, at))
    }
}

fn arguments(function: &Function) -> Vec<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let expr = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    list.args.iter().filter_map(expr).collect()
}

/// How many operands of the same operator are put together.
fn operands(expr: &Expr, of: &BinaryOperator) -> usize {
    let (mut rest, mut count) = (expr, 1);
    while let Expr::BinaryOp { left, op, .. } = rest
        && op == of
    {
        rest = left;
        count += 1;
    }
    count
}

/// Whether what is put into a text may be longer than what is taken out: `replace(text, 'a', 'bb')`.
fn may_lengthen(arguments: &[&Expr]) -> bool {
    let chars = |at: usize| match arguments.get(at) {
        Some(Expr::Value(value)) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.chars().count()),
            _ => None,
        },
        _ => None,
    };
    match (chars(1), chars(2)) {
        (_, Some(0)) => false,
        (Some(needle), Some(instead)) => instead > needle,
        _ => true,
    }
}

fn is_string(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_))
}

/// Whether values of a type have a few bytes, whatever they are made of.
fn is_small(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int(_)
            | DataType::Integer(_)
            | DataType::BigInt(_)
            | DataType::SmallInt(_)
            | DataType::Int2(_)
            | DataType::Int4(_)
            | DataType::Int8(_)
            | DataType::Float(_)
            | DataType::Float4
            | DataType::Float8
            | DataType::Real
            | DataType::Double(_)
            | DataType::DoublePrecision
            | DataType::Boolean
            | DataType::Bool
            | DataType::Uuid
            | DataType::Date
            | DataType::Time(..)
            | DataType::Timestamp(..)
            | DataType::Interval { .. }
    )
}

fn is_arithmetic(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

/// Whether an operator gives a number, which is measured elsewhere, or a truth.
fn is_small_operator(op: &BinaryOperator) -> bool {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or, PGExp};
    is_arithmetic(op) || matches!(op, And | Or | Eq | NotEq | Lt | LtEq | Gt | GtEq | PGExp)
}
