//! Row rules that only the database can tell: those that call functions, or read other tables.

use std::sync::Arc;

use sqlparser::tokenizer::Token;

use super::emit::{Edits, emit, quoted};
use super::identities;
use super::select::{Ctes, NameScope};
use super::tokens::{self, Piece, read_rule};
use super::walk::{VisibleTable, Walk, not_supported};
use crate::caller::Caller;
use crate::predicate::Predicate;
use crate::refusal::{NOT_SUPPORTED, Refusal};
use crate::shape::{Access, TableName, TableShape};
use crate::table::Dialect;

/// A rule as the database runs it.
#[derive(Debug)]
pub(super) struct DatabaseRule {
    pub(super) sql: String,
    /// Columns of the row that it is about.
    pub(super) columns: Vec<Box<str>>,
    pub(super) reads: Vec<RuleRead>,
}

/// A table that a rule reads besides the row that it is about.
#[derive(Debug, Clone)]
pub(crate) struct RuleRead {
    pub(crate) shape: Arc<TableShape>,
    /// Which of its columns are read.
    pub(crate) read: Vec<bool>,
}

/// The tables that a rule reads besides the row that it is about, which is one of the table `of`.
///
/// A rule is the operator's: it reads those tables with all their rows and columns, whatever its caller
/// may see of them.
pub fn rule_tables(
    rule: &str,
    of: &TableName,
    dialect: Dialect,
) -> Result<Vec<TableName>, Refusal> {
    let rule = read_rule(rule, dialect)?;
    let is_select = |piece: &Piece| matches!(&piece.token, Token::Word(word) if word.value.eq_ignore_ascii_case("select"));
    if !rule.iter().any(is_select) {
        return Ok(Vec::new());
    }
    let about = About::new(rule, of, dialect)?;
    let walk = about.walk(None)?;
    let mut tables = Vec::new();
    for it in walk.occurrences.iter().skip(1) {
        let name = &walk.tables[it.table];
        if !tables.contains(name) {
            tables.push(name.clone());
        }
    }
    Ok(tables)
}

/// Whether a rule can be read as a condition at all, whatever its table may be like.
pub fn read_as_condition(rule: &str, of: &TableName, dialect: Dialect) -> Result<(), Refusal> {
    let about = About::new(read_rule(rule, dialect)?, of, dialect)?;
    // Where it is in what was put around the rule says nothing.
    let unplaced = |refusal: Refusal| Refusal { position: None, ..refusal };
    super::parse(&about.pieces, dialect).map(drop).map_err(unplaced)
}

/// By what a rule can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleUse {
    /// By images of rows, and so whichever way the table is read.
    Everywhere,
    /// By the database only, and so in live queries only.
    LiveQueries,
}

/// Looks at a rule for the rows of a table before anyone asks for them. `tables` are those that it reads
/// besides ([`rule_tables`]), as far as they are watched. The refusal says where in the rule it is wrong.
pub fn check_rule(
    rule: &str,
    of: &TableName,
    shape: &Arc<TableShape>,
    tables: &[(TableName, Arc<TableShape>)],
    dialect: Dialect,
) -> Result<RuleUse, Refusal> {
    let nobody: &dyn Caller = &();
    let pieces = identities::fill(&read_rule(rule, dialect)?, nobody, dialect)?;
    let plain = match Predicate::parse(rule, &shape.images(dialect), nobody) {
        Ok(_) => return Ok(RuleUse::Everywhere),
        Err(refusal) => refusal,
    };
    match run_by_the_database(&whole(of.clone(), shape), pieces, tables, dialect) {
        Ok(_) => Ok(RuleUse::LiveQueries),
        // Of a plain condition, that it is none says less than what is wrong with it.
        Err(refusal) if plain.code == NOT_SUPPORTED => Err(refusal),
        Err(_) => Err(plain),
    }
}

/// A rule that is held to what queries are held to, but sees all columns.
pub(super) fn run_by_the_database(
    known: &VisibleTable,
    rule: Vec<Piece>,
    tables: &[(TableName, Arc<TableShape>)],
    dialect: Dialect,
) -> Result<DatabaseRule, Refusal> {
    let about = About::new(rule, &known.name, dialect)?;
    let own = TableName { schema: None, name: known.name.name.clone() };
    let mut seen = vec![whole(own, &known.shape)];
    seen.extend(tables.iter().map(|(name, shape)| whole(name.clone(), shape)));
    let walk = about.walk(Some(&seen))?;
    let mut edits = Edits::default();
    for it in walk.occurrences.iter().skip(1) {
        let name = &seen[it.table].shape.sql_name;
        let alias = if it.has_alias { String::new() } else { format!(" AS {}", quoted(&it.alias)) };
        edits.replace(it.from, it.to, format!("{name}{alias}"));
    }
    if dialect == Dialect::Postgres {
        for at in (about.from..about.to).filter(|at| walk.is_call(*at)) {
            edits.put_before(at, "pg_catalog.");
        }
    }
    let own = walk.occurrences[0].read.iter().zip(&known.shape.columns);
    let own = own.filter(|(read, _)| **read).map(|(_, column)| column.column.name.as_str().into());
    let reads = walk
        .occurrences
        .iter()
        .skip(1)
        .map(|it| RuleRead { shape: Arc::clone(&seen[it.table].shape), read: it.read.clone() });
    Ok(DatabaseRule {
        columns: own.collect(),
        reads: reads.collect(),
        sql: emit(&about.pieces, about.from, about.to, &edits).text,
    })
}

fn whole(name: TableName, shape: &Arc<TableShape>) -> VisibleTable {
    let visible = (0..shape.columns.len()).collect();
    VisibleTable { name, shape: Arc::clone(shape), access: Access::default(), visible }
}

/// `SELECT 1 FROM "orders" WHERE (…)`: a rule in a statement, to be read as one.
struct About {
    dialect: Dialect,
    pieces: Vec<Piece>,
    /// The rule's own tokens.
    from: usize,
    to: usize,
}

impl About {
    fn new(rule: Vec<Piece>, of: &TableName, dialect: Dialect) -> Result<About, Refusal> {
        if !is_closed(&rule) {
            return Err(not_supported("a parenthesis without its other half in a row rule"));
        }
        let select = format!("SELECT 1 FROM {} WHERE (", quoted(&of.name));
        let mut pieces = tokens::read(&select, &[], dialect)?;
        let from = pieces.len();
        pieces.extend(rule);
        let to = pieces.len();
        pieces.extend(tokens::read(")", &[], dialect)?);
        Ok(About { dialect, pieces, from, to })
    }

    fn walk<'a>(&'a self, known: Option<&'a [VisibleTable]>) -> Result<Walk<'a>, Refusal> {
        let statement = super::parse(&self.pieces, self.dialect)?;
        let walk = Walk::new(self.dialect, &self.pieces, known);
        let mut walk = Walk { of_client: false, ..walk };
        walk.query(&statement, NameScope { scope: None, ctes: &Ctes::default() })?;
        walk.audit()?;
        Ok(walk)
    }
}

/// Whether a rule ends what it begins: one that does not could reach into what is put around it.
fn is_closed(rule: &[Piece]) -> bool {
    let mut depth = 0_i64;
    for piece in rule {
        match piece.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}
