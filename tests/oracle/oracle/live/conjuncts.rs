//! Random conditions of the columns in scope, as typed as the database wants them.

use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;

use super::case::parameter;
use super::columns::{Field, Kind, Sort};
use crate::condition::{Generator, Subject};

/// A column that can be named.
#[derive(Clone, Copy)]
pub(crate) struct NamedColumn {
    /// What stands before its name: nothing, or an alias and a dot.
    pub(crate) prefix: &'static str,
    pub(crate) field: &'static Field,
}

impl NamedColumn {
    /// Its name.
    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.prefix, self.field.name)
    }
}

/// Makes conditions, and notes what is in them.
pub(crate) struct Maker<'a> {
    pub(crate) sort: Sort,
    pub(crate) random: &'a mut StdRng,
    pub(crate) made: Vec<String>,
    /// Whether only conditions are made that can be tested outside of the database.
    pub(crate) plain: bool,
}

impl Maker<'_> {
    pub(crate) fn note(&mut self, construct: &str) {
        self.made.push(construct.to_owned());
    }

    pub(crate) fn one_in(&mut self, of: u32) -> bool {
        self.random.random_ratio(1, of)
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        *of.choose(self.random).expect("something to choose from")
    }

    /// A few conditions that all must hold.
    pub(crate) fn conjuncts(&mut self, scope: &[NamedColumn], most: usize) -> Vec<String> {
        let count = self.random.random_range(0..=most);
        if count > 1 {
            self.note("AND");
        }
        (0..count).map(|_| self.conjunct(scope)).collect()
    }

    /// A condition that can stand beside AND.
    pub(crate) fn conjunct(&mut self, scope: &[NamedColumn]) -> String {
        match self.random.random_range(0..10) {
            0 => {
                self.note("OR");
                format!("({} OR {})", self.test(scope), self.test(scope))
            }
            1 => {
                self.note("NOT");
                format!("NOT ({})", self.test(scope))
            }
            2 | 3 => self.generated(scope),
            _ => self.test(scope),
        }
    }

    /// One of the conditions that predicates are compared by.
    fn generated(&mut self, scope: &[NamedColumn]) -> String {
        let prefix = self.pick(scope).prefix;
        let plain = |seen: &&NamedColumn| {
            seen.prefix == prefix
                && !matches!(seen.field.kind, Kind::Json | Kind::Opaque | Kind::Bytes)
        };
        let fields: Vec<&Field> = scope.iter().filter(plain).map(|seen| seen.field).collect();
        let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
        let subjects: Vec<Subject> = fields.iter().map(|field| field.subject(&names)).collect();
        if subjects.is_empty() {
            return self.test(scope);
        }
        self.note("generated");
        let likes: &[&str] = match self.sort {
            Sort::Sqlite => &["LIKE"],
            Sort::Postgres => &["LIKE", "ILIKE"],
        };
        let mut generator = Generator {
            subjects: &subjects,
            random: self.random,
            likes,
            truths: &["TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "NULL"],
        };
        let random = generator.sound();
        if random.constructs.contains(&"identity") {
            self.note("identity");
        }
        format!("({})", qualify(&random.text, &names, prefix))
    }

    /// A value for a column, sometimes as a parameter.
    pub(crate) fn value(&mut self, field: &Field) -> String {
        let literal = self.pick(field.values);
        let json = match literal.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
            Some(text) => serde_json::json!(text.replace("''", "'")).to_string(),
            None => literal.to_owned(),
        };
        if self.one_in(3) {
            self.note("parameter");
            return parameter(&json, literal);
        }
        literal.to_owned()
    }

    fn test(&mut self, scope: &[NamedColumn]) -> String {
        let exact = |it: &&NamedColumn| {
            matches!(it.field.kind, Kind::Whole | Kind::Bool | Kind::Text | Kind::Ordered)
        };
        let exact: Vec<NamedColumn> = scope.iter().filter(exact).copied().collect();
        let seen = self.pick(if self.plain && !exact.is_empty() { &exact } else { scope });
        let (name, field) = (seen.text(), seen.field);
        // Bytes cannot be written in a live query of SQLite.
        let unasked =
            field.kind == Kind::Opaque || field.kind == Kind::Bytes && self.sort == Sort::Sqlite;
        if self.one_in(8) || unasked {
            self.note("IS NULL");
            let not = self.pick(&["", "NOT "]);
            return format!("{name} IS {not}NULL");
        }
        match field.kind {
            Kind::Json => self.json(&name, field),
            Kind::Bool if self.one_in(3) => name,
            Kind::Whole if !self.plain && self.one_in(5) && field.name != "c_big" => {
                self.note("arithmetic");
                let operator = self.pick(&["+ 1 >", "* 2 <=", "% 3 =", "- 2 <"]);
                format!("{name} {operator} {}", self.pick(&["0", "1", "2"]))
            }
            Kind::Text | Kind::Folded if self.one_in(3) => self.text(&name),
            _ => self.compared(&name, field),
        }
    }

    fn json(&mut self, name: &str, field: &Field) -> String {
        self.note("JSON operator");
        match self.sort {
            Sort::Sqlite => match self.random.random_range(0..3) {
                0 => format!("{name} ->> '$.a' = 1"),
                1 => format!("json_extract({name}, '$.b') = 'x'"),
                _ => format!("json_type({name}, '$.a') IS NOT NULL"),
            },
            Sort::Postgres => match self.random.random_range(0..4) {
                0 => format!("{name} ->> 'a' = '1'"),
                1 => format!("{name} -> 'a' ->> 'b' IS NOT NULL"),
                2 if field.sql == "jsonb" => format!("{name} @> '{{\"b\": \"x\"}}'"),
                3 => format!("{name} #>> '{{a,b}}' IS NULL"),
                _ => format!("{name} ->> 'b' LIKE 'x%'"),
            },
        }
    }

    fn text(&mut self, name: &str) -> String {
        let pattern = self.pick(&["'a%'", "'%b'", "'_'", "'%ä%'", "'A_'", "'a!_%' ESCAPE '!'"]);
        let ilike = self.sort == Sort::Postgres && self.one_in(2);
        self.note(if ilike { "ILIKE" } else { "LIKE" });
        let not = self.pick(&["", "", "NOT "]);
        format!("{name} {not}{} {pattern}", if ilike { "ILIKE" } else { "LIKE" })
    }

    fn compared(&mut self, name: &str, field: &Field) -> String {
        let kinds = if self.plain { 0..6 } else { 0..12 };
        match self.random.random_range(kinds) {
            0 => {
                self.note("BETWEEN");
                format!("{name} BETWEEN {} AND {}", self.value(field), self.value(field))
            }
            1 | 2 => {
                self.note("IN");
                let values: Vec<String> =
                    (0..self.random.random_range(1..4)).map(|_| self.value(field)).collect();
                let not = self.pick(&["", "", "NOT "]);
                format!("{name} {not}IN ({})", values.join(", "))
            }
            3 => {
                self.note("IS DISTINCT FROM");
                let not = self.pick(&["", "NOT "]);
                format!("{name} IS {not}DISTINCT FROM {}", self.value(field))
            }
            8 => {
                self.note("CASE");
                let value = self.value(field);
                format!(
                    "CASE WHEN {name} = {value} THEN 1 WHEN {name} IS NULL THEN 2 ELSE 3 END < 3"
                )
            }
            9 => {
                self.note("COALESCE");
                format!("COALESCE({name}, {}) = {}", self.value(field), self.value(field))
            }
            10 => self.cast(name, field),
            // Texts are in order under some collations only.
            4 if !(self.plain && field.kind == Kind::Text) => {
                self.note("<");
                let operator = self.pick(&["<", "<=", ">", ">="]);
                format!("{name} {operator} {}", self.value(field))
            }
            5 => {
                self.note("<>");
                format!("{name} <> {}", self.value(field))
            }
            _ => {
                self.note("=");
                format!("{name} = {}", self.value(field))
            }
        }
    }

    fn cast(&mut self, name: &str, field: &Field) -> String {
        self.note("cast");
        match (self.sort, field.kind) {
            (Sort::Sqlite, Kind::Text | Kind::Folded) => format!("CAST({name} AS INTEGER) = 0"),
            (Sort::Sqlite, _) => format!("CAST({name} AS TEXT) > '1'"),
            (Sort::Postgres, Kind::Whole) => {
                let written = self.pick(&["::text <> '1'", "::numeric(20,1) > 1", "::bigint = 2"]);
                format!("{name}{written}")
            }
            (Sort::Postgres, _) if field.name == "c_at" => format!("{name}::date > '2000-01-01'"),
            (Sort::Postgres, Kind::Text) => format!("CAST({name} AS varchar(1)) = 'a'"),
            (Sort::Postgres, _) => format!("{name}::text LIKE '%0%'"),
        }
    }
}

/// A condition whose names have something before them.
fn qualify(text: &str, names: &[&str], prefix: &str) -> String {
    if prefix.is_empty() {
        return text.to_owned();
    }
    let (mut qualified, mut word, mut quoted) = (String::new(), String::new(), false);
    for letter in text.chars().chain([' ']) {
        if !quoted && (letter.is_ascii_alphanumeric() || letter == '_') {
            word.push(letter);
            continue;
        }
        if names.contains(&word.as_str()) {
            qualified.push_str(prefix);
        }
        qualified.push_str(&std::mem::take(&mut word));
        qualified.push(letter);
        quoted ^= letter == '\'';
    }
    qualified.pop();
    qualified
}

#[test]
fn names_are_qualified_and_texts_are_not() {
    let text = "id = 5 AND c_text = 'id' OR NOT c_text_c";
    assert_eq!(
        qualify(text, &["id", "c_text"], "a."),
        "a.id = 5 AND a.c_text = 'id' OR NOT c_text_c"
    );
}
