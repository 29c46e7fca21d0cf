//! JSON paths of PostgreSQL, which may search by regular expressions: `$ ? (@ like_regex "…")`. Called for calls
//! and operators that have one.
//!
//! The strings of a path that is written here are as short as other patterns are; what else is in it may be as long
//! as it is. A path that is stored or computed is measured as a whole when it is run.

use sqlparser::ast::{BinaryOperator, DataType, Expr, Value};
use sqlparser::tokenizer::Token;

use super::search::{Operand, SearchSide, Size};
use super::walk::{Claim, Walk};
use super::wrap::Wrapped;
use crate::like::PATTERN_CHARS_MAX;
use crate::refusal::{Refusal, TOO_LARGE};

/// Functions whose second argument is a path.
pub(super) const WITH_PATH: &[&str] =
    &["jsonb_path_exists", "jsonb_path_match", "jsonb_path_query_array", "jsonb_path_query_first"];

impl Walk<'_> {
    /// `document @? path` and `document @@ path`.
    pub(super) fn search_by_path_operator(
        &mut self,
        op: &BinaryOperator,
        right: &Expr,
    ) -> Result<(), Refusal> {
        let is_at_at = *op == BinaryOperator::AtAt;
        let sign = if is_at_at { Token::AtAt } else { Token::AtQuestion };
        if is_at_at && self.known.is_some() && !matches!(self.size(right), Size::Literal(_)) {
            // The operator is one of text search, too.
            match self.is_path(right) {
                Some(true) => {}
                Some(false) => return Ok(()),
                None => {
                    return Err(self
                        .unsupported("a computed value behind @@", right)
                        .hint("write the path, or use jsonb_path_match"));
                }
            }
        }
        let operator = self.operator_before(right, |token| *token == sign);
        let operator = operator.ok_or_else(|| self.unplaced(right))?;
        self.search_by_path(&Operand { expr: right, place: SearchSide::Behind(operator) })
    }

    pub(super) fn search_by_path(&mut self, path: &Operand<'_>) -> Result<(), Refusal> {
        if !self.of_client {
            return Ok(());
        }
        let chars_max = match (self.size(path.expr), written(path.expr)) {
            (Size::Stored | Size::Computed, _) => return self.wrap(path, Wrapped::Path),
            (Size::Literal(_), Some(text)) => longest_string(text),
            (Size::Literal(chars), None) => chars,
        };
        if chars_max <= PATTERN_CHARS_MAX {
            return Ok(());
        }
        let message =
            format!("a string in a JSON path has more than {PATTERN_CHARS_MAX} characters");
        Err(Refusal::new(TOO_LARGE, message)
            .hint("look for something shorter, or compare with a variable: $ ? (@ == $x)")
            .at(self.position(path.expr)))
    }

    /// Whether a value is a path, where its type can be told.
    fn is_path(&self, expr: &Expr) -> Option<bool> {
        match expr {
            Expr::Nested(inner) => self.is_path(inner),
            Expr::Cast { data_type: DataType::Custom(name, _), .. } => {
                Some(name.to_string().to_ascii_lowercase().ends_with("jsonpath"))
            }
            Expr::Cast { .. } => Some(false),
            Expr::Identifier(name) => self.is_path_column(self.token(name.span)?),
            Expr::CompoundIdentifier(parts) => self.is_path_column(self.token(parts.last()?.span)?),
            _ => None,
        }
    }

    fn is_path_column(&self, at: usize) -> Option<bool> {
        let Claim::Column { occurrence, column, .. } = self.claims[at] else { return None };
        let shape = &self.known?[self.occurrences[occurrence].table].shape;
        Some(shape.columns[column].column.type_name.ends_with("jsonpath"))
    }
}

/// A path as it is written.
fn written(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => written(inner),
        _ => None,
    }
}

/// The characters of the longest string in a path, or a few more.
fn longest_string(path: &str) -> usize {
    let mut chars = path.chars().peekable();
    let (mut longest, mut within) = (0, None);
    while let Some(next) = chars.next() {
        match (next, within) {
            // What follows is meant as it is, a quote too.
            ('\\', within_string) => {
                chars.next();
                within = within_string.map(|chars| chars + 1);
            }
            ('"', None) => within = Some(0),
            ('"', Some(_)) => within = None,
            (_, Some(count)) => within = Some(count + 1),
            ('/', None) if chars.peek() == Some(&'*') => {
                chars.next();
                let mut before = ' ';
                for each in chars.by_ref() {
                    if (before, each) == ('*', '/') {
                        break;
                    }
                    before = each;
                }
            }
            (_, None) => {}
        }
        longest = longest.max(within.unwrap_or(0));
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::longest_string;

    #[test]
    fn strings_of_a_path_are_found() {
        for (path, expected) in [
            ("$.a.b[*] ? (@ > 12)", 0),
            (r#"$ ? (@ like_regex "abc")"#, 3),
            (r#"$ ? (@ == "ab" || @ == "cdef")"#, 4),
            (r#"$ ? (@ like_regex "a\"bc\\")"#, 5),
            (r#"$."abcd" /* " */ ? (@ like_regex "efghij" /* "klmnopqrstuvw" */)"#, 6),
            (r#"$ /*/ "abc" /**/ ? (@ starts with "d")"#, 1),
            (r#"$.a\"b ? (@ like_regex "äöü")"#, 3),
            (r#"$ ? (@ like_regex "abcd"#, 4),
            (r#"/* "abc"#, 0),
        ] {
            assert_eq!(longest_string(path), expected, "{path}");
        }
    }
}
