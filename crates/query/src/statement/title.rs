//! What a result's column is called if the query does not say.

use sqlparser::ast::Expr;
use sqlparser::tokenizer::{Token, Word};

use super::emit;
use super::tokens::Piece;
use super::walk::Walk;
use crate::table::Dialect;

/// The name that the database would give, or nearly: values are told by their place, so that nothing but
/// the name depends on it.
pub(crate) fn title(expr: &Expr, tokens: (usize, usize), walk: &Walk<'_>) -> String {
    match walk.dialect {
        Dialect::Postgres => postgres(expr, walk).unwrap_or_else(|| "?column?".to_owned()),
        Dialect::Sqlite => sqlite(expr, tokens, walk),
    }
}

fn postgres(expr: &Expr, walk: &Walk<'_>) -> Option<String> {
    let word = match expr {
        Expr::Identifier(name) => return Some(walk.fold(name)),
        Expr::CompoundIdentifier(parts) => return parts.last().map(|name| walk.fold(name)),
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident());
            return name.map(|name| walk.fold(name));
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return postgres(inner, walk),
        Expr::CompoundFieldAccess { root, .. } => return postgres(root, walk),
        Expr::Cast { expr: inner, data_type, .. } => {
            return postgres(inner, walk).or_else(|| Some(data_type.to_string().to_lowercase()));
        }
        Expr::Case { else_result, .. } => {
            let inner = else_result.as_deref().and_then(|inner| postgres(inner, walk));
            return Some(inner.unwrap_or_else(|| "case".to_owned()));
        }
        Expr::Exists { .. } => "exists",
        Expr::Array(_) => "array",
        Expr::Extract { .. } => "extract",
        Expr::Substring { shorthand: true, .. } => "substr",
        Expr::Substring { .. } => "substring",
        Expr::Trim { .. } => "btrim",
        Expr::Position { .. } => "position",
        Expr::Overlay { .. } => "overlay",
        Expr::AtTimeZone { .. } => "timezone",
        Expr::Ceil { .. } => "ceil",
        Expr::Floor { .. } => "floor",
        Expr::Interval(_) => "interval",
        _ => return None,
    };
    Some(word.to_owned())
}

/// The column's name as it was declared, or the expression as it was written.
fn sqlite(expr: &Expr, (from, to): (usize, usize), walk: &Walk<'_>) -> String {
    if let (Some((occurrence, column)), Some(known)) = (walk.plain_column(expr), walk.known) {
        let table = walk.occurrences[occurrence].table;
        return known[table].shape.columns[column].column.name.clone();
    }
    match expr {
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(parts) => {
            parts.last().map_or_else(String::new, |name| name.value.clone())
        }
        _ => compact(&walk.pieces[from..to]),
    }
}

/// Tokens as people write them.
fn compact(pieces: &[Piece]) -> String {
    let mut text = String::new();
    let mut before: Option<&Token> = None;
    for Piece { token, .. } in pieces {
        let is_close = matches!(token, Token::RParen | Token::Comma | Token::Period)
            || matches!(before, None | Some(Token::LParen | Token::Period))
            || (*token == Token::LParen && matches!(before, Some(Token::Word(_))));
        if !is_close {
            text.push(' ');
        }
        text.push_str(&emit::text(token));
        before = Some(token);
    }
    text
}

/// The tokens of each item in the list of a SELECT.
pub(crate) fn items(pieces: &[Piece], select: usize) -> Vec<(usize, usize)> {
    let mut items = Vec::new();
    let mut depth = 0_usize;
    let mut from = select + 1;
    for (at, piece) in pieces.iter().enumerate().skip(select + 1) {
        let ends = match &piece.token {
            Token::LParen | Token::LBracket => {
                depth += 1;
                false
            }
            Token::RParen | Token::RBracket if depth > 0 => {
                depth -= 1;
                false
            }
            Token::RParen => true,
            Token::Word(Word { value, quote_style: None, .. }) if depth == 0 => {
                const AFTER: [&str; 11] = [
                    "from",
                    "where",
                    "group",
                    "having",
                    "window",
                    "order",
                    "limit",
                    "offset",
                    "union",
                    "intersect",
                    "except",
                ];
                if at == from && ["all", "distinct"].iter().any(|it| value.eq_ignore_ascii_case(it))
                {
                    from = at + 1;
                }
                AFTER.iter().any(|word| value.eq_ignore_ascii_case(word))
            }
            _ => false,
        };
        if ends {
            items.push((from, at));
            return items;
        }
        if piece.token == Token::Comma && depth == 0 {
            items.push((from, at));
            from = at + 1;
        }
    }
    items.push((from, pieces.len()));
    items
}
