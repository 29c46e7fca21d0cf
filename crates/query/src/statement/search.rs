//! What a client looks for in texts, and in what texts: both are bounded, because databases do not let
//! themselves be interrupted while they search, and others wait for the connection meanwhile.
//!
//! A literal is measured here. What is computed is put into an expression that measures it when it is run,
//! and raises an error ([`wrap`](super::wrap)). Nothing is ever cut off. A text that is stored may be as long
//! as it is: whoever may write it had room for it. What has no pattern in it, and grows no faster than what
//! it is made of, is not bounded.

use sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, Value,
};
use sqlparser::tokenizer::{Token, Word};

use super::extent::{Extent, is};
use super::from::identifiers;
use super::functions;
use super::path;
use super::walk::{Claim, Walk, not_supported};
use super::wrap::{Wrap, Wrapped};
use crate::like::{PATTERN_CHARS_MAX, too_long};
use crate::refusal::{Refusal, TOO_LARGE};
use crate::table::Dialect;

/// Characters of literal patterns that are searched for without a look at the clock between: what is
/// written like this can be found by an index.
const UNWATCHED_CHARS_MAX: usize = 1_024;
/// Computed operands of a statement, at most: each is looked for among its tokens.
const COMPUTED_MAX: usize = 200;

/// How large a value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// So many characters.
    Literal(usize),
    /// No larger than what is in a table.
    Stored,
    Computed,
}

/// An operand, and how its tokens are found once they are needed.
pub(super) struct Operand<'e> {
    pub(super) expr: &'e Expr,
    pub(super) place: SearchSide,
}

#[derive(Clone, Copy)]
pub(super) enum SearchSide {
    At(Extent),
    Before(usize),
    Behind(usize),
}

impl Walk<'_> {
    /// `text LIKE pattern`, and what is written like it.
    pub(crate) fn search_by_word(
        &mut self,
        (text, pattern): (&Expr, &Expr),
        words: &[&str],
        negated: bool,
    ) -> Result<(), Refusal> {
        if !self.of_client {
            return Ok(());
        }
        let operator =
            self.operator_before(pattern, |token| words.iter().any(|word| is(token, word)));
        let operator = operator.ok_or_else(|| self.unplaced(pattern))?;
        let of_two_words = usize::from(is(&self.pieces[operator].token, "to"));
        let before = operator.saturating_sub(of_two_words + usize::from(negated));
        self.search(
            Operand { expr: text, place: SearchSide::Before(before) },
            &[Operand { expr: pattern, place: SearchSide::Behind(operator) }],
        )
    }

    /// Operators that search: by a regular expression, or for the parts of a collection in another.
    pub(crate) fn search_by_operator(
        &mut self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
    ) -> Result<(), Refusal> {
        let sign = match op {
            BinaryOperator::Glob | BinaryOperator::Match | BinaryOperator::Regexp => {
                return self.search_by_word((left, right), &["glob", "match", "regexp"], false);
            }
            BinaryOperator::PGRegexMatch => Token::Tilde,
            BinaryOperator::PGRegexIMatch => Token::TildeAsterisk,
            BinaryOperator::PGRegexNotMatch => Token::ExclamationMarkTilde,
            BinaryOperator::PGRegexNotIMatch => Token::ExclamationMarkTildeAsterisk,
            BinaryOperator::AtArrow => Token::AtArrow,
            BinaryOperator::ArrowAt => Token::ArrowAt,
            BinaryOperator::PGOverlap => Token::Overlap,
            BinaryOperator::QuestionAnd => Token::QuestionAnd,
            BinaryOperator::QuestionPipe => Token::QuestionPipe,
            BinaryOperator::Minus if may_be_array(right) => Token::Minus,
            BinaryOperator::AtQuestion | BinaryOperator::AtAt if self.of_client => {
                return self.search_by_path_operator(op, right);
            }
            _ => return Ok(()),
        };
        if !self.of_client || self.dialect == Dialect::Sqlite {
            return Ok(());
        }
        let is_regular = matches!(
            op,
            BinaryOperator::PGRegexMatch
                | BinaryOperator::PGRegexIMatch
                | BinaryOperator::PGRegexNotMatch
                | BinaryOperator::PGRegexNotIMatch
        );
        let operator = self.operator_before(right, |token| *token == sign);
        let operator = operator.ok_or_else(|| self.unplaced(right))?;
        let left = Operand { expr: left, place: SearchSide::Before(operator) };
        let right = Operand { expr: right, place: SearchSide::Behind(operator) };
        if is_regular {
            return self.search(left, &[right]);
        }
        if *op != BinaryOperator::Minus {
            self.collection(&left)?;
        }
        self.collection(&right)
    }

    /// `position(needle IN text)`.
    pub(crate) fn search_by_position(
        &mut self,
        call: &Expr,
        (needle, text): (&Expr, &Expr),
    ) -> Result<(), Refusal> {
        let open = self.call_around("position", call, needle);
        let parts = open.and_then(|open| self.arguments(open, &["in"]));
        let Some([at_needle, at_text]) = parts.as_deref() else {
            return Err(self.unplaced(call));
        };
        self.search(
            Operand { expr: text, place: SearchSide::At(*at_text) },
            &[Operand { expr: needle, place: SearchSide::At(*at_needle) }],
        )
    }

    /// `trim(BOTH set FROM text)` and `trim(text, set)`.
    pub(crate) fn search_by_trim(
        &mut self,
        call: &Expr,
        text: &Expr,
        set: Option<&Expr>,
    ) -> Result<(), Refusal> {
        // Without a set it is blanks that are looked for, in a text that may be as long as it is.
        let Some(set) = set else { return Ok(()) };
        let open = self.call_around("trim", call, text).ok_or_else(|| self.unplaced(call))?;
        let parts = self.arguments(open, &["from"]);
        let Some(&[(from, end), last]) = parts.as_deref() else {
            return Err(self.unplaced(call));
        };
        let is_side = |word| is(&self.pieces[from].token, word);
        let first = match ["both", "leading", "trailing"].into_iter().any(is_side) {
            true => (from + 1, end),
            false => (from, end),
        };
        let is_list = self.pieces[end].token == Token::Comma;
        let (at_text, at_set) = if is_list { (first, last) } else { (last, first) };
        self.search(
            Operand { expr: text, place: SearchSide::At(at_text) },
            &[Operand { expr: set, place: SearchSide::At(at_set) }],
        )
    }

    /// A call of one of the functions that search.
    pub(crate) fn search_by_call(&mut self, name: &str, call: &Function) -> Result<(), Refusal> {
        let searching = functions::searching(name, self.dialect);
        let is_patch = name == "json_patch" && self.dialect == Dialect::Sqlite;
        let has_path = path::WITH_PATH.contains(&name) && self.dialect == Dialect::Postgres;
        let FunctionArguments::List(list) = &call.args else { return Ok(()) };
        if searching.is_none() && !is_patch && !has_path {
            return Ok(());
        }
        let last = identifiers(&call.name).last().and_then(|name| self.token(name.span));
        let parts = last.and_then(|at| self.arguments(at + 1, &[]));
        let unplaced = || not_supported(&format!("{name} written this way"));
        let parts = parts.filter(|parts| parts.len() == list.args.len()).ok_or_else(unplaced)?;
        let operand = |at: usize| match list.args.get(at)? {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                Some(Operand { expr, place: SearchSide::At(parts[at]) })
            }
            _ => None,
        };
        if is_patch {
            return (0..list.args.len())
                .filter_map(operand)
                .try_for_each(|each| self.collection(&each));
        }
        if has_path {
            return operand(1).map_or(Ok(()), |path| self.search_by_path(&path));
        }
        let patterns = searching.unwrap_or_default().iter().filter_map(|at| operand(*at));
        let patterns: Vec<Operand<'_>> = patterns.collect();
        match operand(0) {
            // Blanks are trimmed from a text that may be as long as it is.
            Some(text) if !patterns.is_empty() => self.search(text, &patterns),
            _ => Ok(()),
        }
    }

    /// `substring(text FROM pattern)`: by a number it is no search, and by a regular expression it can be
    /// interrupted, so that only what is written is measured.
    pub(crate) fn search_by_substring(&self, pattern: Option<&Expr>) -> Result<(), Refusal> {
        match pattern.map(|pattern| (pattern, self.size(pattern))) {
            Some((pattern, Size::Literal(chars))) if chars > PATTERN_CHARS_MAX => {
                Err(too_long("a pattern").at(self.position(pattern)))
            }
            _ => Ok(()),
        }
    }

    fn search(&mut self, text: Operand<'_>, patterns: &[Operand<'_>]) -> Result<(), Refusal> {
        if !self.of_client {
            return Ok(());
        }
        let mut is_watched = false;
        for pattern in patterns {
            match self.size(pattern.expr) {
                Size::Literal(chars) if chars > PATTERN_CHARS_MAX => {
                    let what = "a pattern, a text to look for or a set of characters";
                    return Err(too_long(what).at(self.position(pattern.expr)));
                }
                Size::Literal(chars) => {
                    self.unwatched += chars;
                    is_watched |= self.unwatched > UNWATCHED_CHARS_MAX;
                }
                Size::Stored | Size::Computed => self.wrap(pattern, Wrapped::Pattern)?,
            }
        }
        if self.size(text.expr) == Size::Computed {
            return self.wrap(&text, Wrapped::Text);
        }
        match self.dialect {
            Dialect::Postgres if is_watched => {
                let literals = patterns.iter().filter_map(|pattern| literal(pattern.expr));
                for at in literals.filter_map(|span| self.token(span)).collect::<Vec<_>>() {
                    self.put(Wrap { from: at, to: at + 1, kind: Wrapped::Watched });
                }
                Ok(())
            }
            Dialect::Sqlite if is_watched => self.wrap(&text, Wrapped::Watched),
            Dialect::Postgres | Dialect::Sqlite => Ok(()),
        }
    }

    /// One of two collections of which each part of one is looked for in the other.
    fn collection(&mut self, operand: &Operand<'_>) -> Result<(), Refusal> {
        if !self.of_client || self.size(operand.expr) != Size::Computed {
            return Ok(());
        }
        if self.dialect == Dialect::Postgres
            && self.known.is_some()
            && let Some((from, to)) = self.extent(operand)
            && self.has_aggregate((from, to))
        {
            return Err(self
                .unsupported("an aggregate that is compared as an array or JSON", operand.expr)
                .hint("compute it in WITH or a subquery, and compare its column"));
        }
        self.wrap(operand, Wrapped::Collection)
    }

    /// Has the database measure an operand. Only when it is known what the names in it are.
    pub(super) fn wrap(&mut self, operand: &Operand<'_>, kind: Wrapped) -> Result<(), Refusal> {
        if self.known.is_none() {
            return Ok(());
        }
        self.has_room_for_one_more(operand.expr)?;
        let extent = self.extent(operand).ok_or_else(|| self.unplaced(operand.expr))?;
        self.put(Wrap { from: extent.0, to: extent.1, kind });
        Ok(())
    }

    /// Refuses a statement with very many computed values.
    pub(super) fn has_room_for_one_more(&self, expr: &Expr) -> Result<(), Refusal> {
        if self.wraps.iter().filter(|wrap| wrap.kind != Wrapped::Watched).count() < COMPUTED_MAX {
            return Ok(());
        }
        let message =
            format!("more than {COMPUTED_MAX} values are computed of computed ones, or searched");
        Err(Refusal::new(TOO_LARGE, message)
            .hint("subscribe to several smaller queries")
            .at(self.position(expr)))
    }

    /// What is visited twice is wrapped once.
    pub(super) fn put(&mut self, wrap: Wrap) {
        if !self.wraps.contains(&wrap) {
            self.wraps.push(wrap);
        }
    }

    fn extent(&self, operand: &Operand<'_>) -> Option<Extent> {
        match operand.place {
            SearchSide::At(extent) => Some(extent).filter(|at| self.is_exactly(*at, operand.expr)),
            SearchSide::Before(operator) => self.extent_before(operand.expr, operator),
            SearchSide::Behind(operator) => self.extent_behind(operand.expr, operator),
        }
    }

    pub(super) fn unplaced(&self, expr: &Expr) -> Refusal {
        self.unsupported("a computed value that is searched, written this way,", expr)
            .hint("compute it in WITH or a subquery, and search its column")
    }

    /// How large a value may be. What is as large as what it is made of is as that is.
    pub(super) fn size(&self, expr: &Expr) -> Size {
        match expr {
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(text) => Size::Literal(text.chars().count()),
                other => Size::Literal(other.to_string().len()),
            },
            Expr::TypedString(typed) => match &typed.value.value {
                Value::SingleQuotedString(text) => Size::Literal(text.chars().count()),
                _ => Size::Computed,
            },
            Expr::Nested(inner)
            | Expr::Cast { expr: inner, .. }
            | Expr::Collate { expr: inner, .. }
            | Expr::Substring { expr: inner, .. }
            | Expr::Trim { expr: inner, .. } => self.size(inner),
            Expr::CompoundFieldAccess { root, access_chain }
                if access_chain.iter().all(|it| matches!(it, AccessExpr::Subscript(_))) =>
            {
                self.size(root)
            }
            Expr::Identifier(name) => self.size_of_column(name),
            Expr::CompoundIdentifier(parts) => {
                parts.last().map_or(Size::Computed, |name| self.size_of_column(name))
            }
            Expr::Array(array) => {
                let sizes = array.elem.iter().map(|element| self.size(element));
                let mut literals = 0;
                for size in sizes {
                    match size {
                        Size::Literal(chars) => literals += chars,
                        Size::Stored | Size::Computed => return Size::Computed,
                    }
                }
                Size::Literal(literals)
            }
            Expr::BinaryOp {
                left,
                op:
                    BinaryOperator::Arrow
                    | BinaryOperator::LongArrow
                    | BinaryOperator::HashArrow
                    | BinaryOperator::HashLongArrow,
                ..
            } => self.size(left),
            Expr::Function(function) => self.size_of_call(function),
            Expr::Case { conditions, else_result, .. } => {
                let results = conditions.iter().map(|when| &when.result);
                self.size_of_one(results.chain(else_result.as_deref()))
            }
            _ => Size::Computed,
        }
    }

    fn size_of_column(&self, name: &Ident) -> Size {
        match self.token(name.span).map(|at| self.claims[at]) {
            Some(Claim::Column { .. }) => Size::Stored,
            _ => Size::Computed,
        }
    }

    fn size_of_call(&self, function: &Function) -> Size {
        let FunctionArguments::List(list) = &function.args else { return Size::Computed };
        let arguments = list.args.iter().filter_map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        });
        let mut arguments = arguments.peekable();
        let name = identifiers(&function.name).last().map(|name| self.fold(name));
        match (name.as_deref(), arguments.peek()) {
            (Some("coalesce" | "nullif" | "ifnull"), Some(_)) => self.size_of_one(arguments),
            (Some(name), Some(first)) if functions::SHRINKING.contains(&name) => self.size(first),
            _ => Size::Computed,
        }
    }

    fn size_of_one<'e>(&self, of: impl Iterator<Item = &'e Expr>) -> Size {
        let mut largest = Size::Literal(0);
        for expr in of {
            largest = match (largest, self.size(expr)) {
                (Size::Computed, _) | (_, Size::Computed) => return Size::Computed,
                (Size::Literal(one), Size::Literal(other)) => Size::Literal(one.max(other)),
                _ => Size::Stored,
            };
        }
        largest
    }

    /// Whether a value is made of others' rows: within a subquery it would be made of no rows at all.
    pub(super) fn has_aggregate(&self, (from, to): Extent) -> bool {
        let mut subqueries = Vec::new();
        for at in from..to {
            let piece = &self.pieces[at];
            match &piece.token {
                Token::LParen => {
                    let next = self.pieces.get(at + 1).map(|next| &next.token);
                    subqueries
                        .push(next.is_some_and(|next| is(next, "select") || is(next, "with")));
                }
                Token::RParen => {
                    subqueries.pop();
                }
                Token::Word(Word { value, .. }) if !subqueries.contains(&true) => {
                    let lower = value.to_ascii_lowercase();
                    if lower == "over" || functions::AGGREGATES.contains(&lower.as_str()) {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }
}

/// Where a literal is, if it is no more than that.
fn literal(expr: &Expr) -> Option<sqlparser::tokenizer::Span> {
    match expr {
        Expr::Value(value) => {
            matches!(value.value, Value::SingleQuotedString(_)).then_some(value.span)
        }
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => literal(inner),
        _ => None,
    }
}

/// Whether what is taken away may be an array: each key of a document is looked for among all of it.
fn may_be_array(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => may_be_array(inner),
        Expr::Cast { data_type, .. } => {
            matches!(data_type, DataType::Array(_) | DataType::Custom(..))
        }
        Expr::Function(function) => {
            let name = function.name.to_string().to_ascii_lowercase();
            let name = name.rsplit('.').next().unwrap_or_default();
            functions::MAKE_ARRAYS.contains(&name)
        }
        Expr::Array(_)
        | Expr::Subquery(_)
        | Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Case { .. } => true,
        Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } => true,
        _ => false,
    }
}
